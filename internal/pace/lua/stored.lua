-- Times that lie ahead. Redis's clock may step back, and a failover may lead to a
-- replica whose clock is behind: what was set before is then further ahead than it was
-- ever meant to be. Each such time is stored with the time that it was set from and how
-- far ahead of that it was, in <field>_set, and is brought back to that distance when it
-- is read. Writing it back keeps it from moving along with the clock.
local longest_pause = 3600000000 -- that of answer.go

local function put(field, value, from)
  redis.call('HSET', pace, field, text(value), field .. '_set', text(from) .. ':' .. text(math.max(value - from, 0)))
end

-- Returns how far ahead the value was meant to be, or nil if it is a later one of a
-- version that does not store that.
local function meant(value, set)
  local from, ahead = string.match(set or '', '^(%d+):(%d+)$')
  if from and value <= from + ahead then return tonumber(ahead) end
end

-- Returns the end of the pause.
local function pause_end(at, value, set)
  local due = tonumber(value or '0')
  return math.min(due, at + math.min(meant(due, set) or longest_pause, longest_pause))
end

-- Returns the end of the pause, and stores it if it was too far ahead.
local function read_pause(at, value, set)
  local due = pause_end(at, value, set)
  if value and due < tonumber(value) then put('paused_until', due, at) end
  return due
end

-- Returns the arrival time of a bucket from which there is no permit before due, and
-- stores it if it was too far ahead.
local function read_tat(field, interval, burst, due, value, set)
  local stored = tonumber(value or '0')
  local tat = gcra_bound(tonumber(interval), tonumber(burst), due, meant(stored, set) or 0, stored)
  if tat < stored then put(field, tat, due) end
  return tat
end
