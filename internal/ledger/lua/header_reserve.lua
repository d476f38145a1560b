-- ARGV: incarnation, number of a segment, its sum. Admits the segment's rows: the header
-- knows of a segment before it exists, so that it can be deleted.
local no = refused()
if no then return no end
local h = redis.call('HMGET', header, 'segments', 'reserved', 'deleting_at', 'sealed')
local number = tonumber(ARGV[2])
if h[3] then return {'missing'} end
if number < tonumber(h[1] or '0') then
  local first = number * #ARGV[3]
  if redis.call('GETRANGE', sums, first, first + #ARGV[3] - 1) ~= ARGV[3] then return {'mismatch'} end
  return {'ok'}
end
if h[4] and h[1] then return {'mismatch'} end
redis.call('HSET', header, 'reserved', math.max(tonumber(h[2] or '0'), number + 1), 'staged_at', text(now()))
return {'ok'}
