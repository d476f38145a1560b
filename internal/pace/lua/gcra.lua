-- The arithmetic of a bucket, in whole microseconds, which stay exact in Lua's doubles until the
-- year 2255. tat, the theoretical arrival time, is when the bucket will be full again; each
-- permit moves it by interval. burst permits fit into the bucket. interval 0: unlimited.

-- Returns the tat to store and 0, or the unchanged tat and the time until a permit can be there.
local function gcra_take(interval, burst, now, tat)
  local next = math.max(now, tat) + interval
  local wait = next - burst * interval - now
  if wait > 0 then return tat, wait end
  return next, 0
end

-- Empties the bucket: its first permit is there at due, and the others follow one by one.
local function gcra_drain(interval, burst, due, tat)
  return math.max(tat, due + (burst - 1) * interval)
end
