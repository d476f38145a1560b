-- The same as gcra.go, in whole microseconds; see there.
local function gcra_take(interval, burst, now, tat)
  local next = math.max(now, tat) + interval
  local wait = next - burst * interval - now
  if wait > 0 then return tat, wait end
  return next, 0
end

local function gcra_refund(interval, burst, tat)
  return tat - interval
end

local function gcra_bound(interval, burst, due, meant, tat)
  return math.min(tat, due + math.max(burst * interval, meant))
end

local function gcra_drain(interval, burst, due, tat)
  return math.max(tat, due + (burst - 1) * interval)
end
