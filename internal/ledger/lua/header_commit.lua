-- ARGV: incarnation, number of segments, number of rows, sums. Answers the header.
if not present() then return {'missing'} end
local h = redis.call('HMGET', header, 'segments', 'deleting_at', 'reserved')
if h[2] then return {'missing'} end
if h[1] then
  if (redis.call('GET', sums) or '') ~= ARGV[4] then return {'mismatch'} end
  return read('ok')
end
if ARGV[4] ~= '' then redis.call('SET', sums, ARGV[4]) end
redis.call('HSET', header, 'segments', ARGV[2], 'rows', ARGV[3], 'committed_at', text(now()), 'v', text(version(0)),
  'reserved', math.max(tonumber(ARGV[2]), tonumber(h[3] or '0')))
conclude()
return read('ok')
