-- Follows clock.lua in the scripts of headers, of segments and of a tenant's lists.

-- indexed returns a time in ms as the index has it. Now is stored as Redis' time less at_once,
-- which is due whatever the clock does, and shows since when. No time is stored that is later than
-- wait_ms from now: one that is later than ahead_ms was stored while Redis' clock was ahead, and is
-- due.
local function indexed(at) return text(at <= t and t - at_once or math.min(at, t + wait_ms)) end

-- inspect stores a score of the index for segments, under a condition of ZADD.
local function inspect(score, names, condition)
  for i = 1, #names, 1000 do -- unpack takes fewer than 8,000
    local entries = {}
    for j = i, math.min(i + 999, #names) do
      entries[#entries + 1] = score
      entries[#entries + 1] = names[j]
    end
    redis.call('ZADD', due, condition, unpack(entries))
  end
end

-- soon has segments inspected at a time in ms, unless they are to be inspected earlier.
local function soon(at, names) inspect(indexed(at), names, 'LT') end

-- conclude ends the run if no more segments are to come and every one is closed. It reports
-- whether this call did.
local function conclude(entry)
  local h = redis.call('HMGET', header, 'segments', 'closed', 'growing', 'ended_at')
  if not h[1] or h[3] or h[4] or tonumber(h[2] or '0') < tonumber(h[1]) then return false end
  redis.call('HSET', header, 'ended_at', text(t))
  redis.call('ZADD', finishing, text(t), entry)
  return true
end
