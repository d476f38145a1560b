-- ARGV: version, flags, not before in ms, sum, version that this one replaced. Brings the
-- segment up to the header's control, and answers with its head. The answer is 'missing'
-- or 'differs' if the segment is not the one that was staged, and {'newer', version,
-- flags} if its control is newer than the caller's, or newer than the one that the
-- caller's replaced. With an empty sum it is any segment that was committed. A
-- segment that awaits results 'differs': Redis has lost them, and without them its rows
-- would be released.
local h = redis.call('HMGET', head, 'sum', 'v', 'flags', 'rows', 'awaits')
if not h[1] then return {'missing'} end
if ARGV[4] == '' and not h[2] then return {'missing'} end
if ARGV[4] ~= '' and h[1] ~= ARGV[4] or h[5] then return {'differs'} end
local own, version = tonumber(h[2] or '0'), tonumber(ARGV[1])
if own > version or own < version and own > tonumber(ARGV[5]) then return {'newer', h[2], h[3]} end

-- cancelRows settles every open row that is neither in progress nor has an intent, by
-- operations on whole bitmaps. While other rows are active, what is stored of the
-- settled ones stays until the segment is closed.
local function cancelRows()
  local rows = tonumber(h[4])
  local bits = string.rep('\255', math.floor(rows / 8))
  if rows % 8 > 0 then bits = bits .. string.char(256 - 2 ^ (8 - rows % 8)) end
  redis.call('SET', scratch, bits)
  redis.call('BITOP', 'OR', mask, settled, active)
  redis.call('BITOP', 'AND', mask, mask, scratch)
  redis.call('BITOP', 'XOR', scratch, scratch, mask)
  local fresh = redis.call('BITCOUNT', scratch)
  redis.call('BITOP', 'OR', cancelled, cancelled, scratch)
  redis.call('BITOP', 'OR', settled, settled, scratch)
  redis.call('DEL', scratch, mask)
  redis.call('UNLINK', first, check, ready, order)
  redis.call('HSET', head, 'next', rows)
  if fresh > 0 then
    redis.call('HINCRBY', head, 'settled', fresh)
    redis.call('HINCRBY', head, 'n:cancelled', fresh)
  end
  if redis.call('BITCOUNT', active) == 0 then clear() end
end

if own < version then
  allowWrites()
  redis.call('HSET', head, 'v', ARGV[1], 'flags', ARGV[2], 'not_before', ARGV[3])
  if has(ARGV[2], 'c') and not has(h[3], 'c') then cancelRows() end
end
return report(now(), redis.call('HGETALL', head))
