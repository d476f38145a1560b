-- ARGV: incarnation, number of segments, number of rows, sums. Answers the header, or
-- 'mismatch' if other segments are committed.
local no = refused()
if no then return no end
local h = redis.call('HMGET', header, 'segments', 'deleting_at', 'reserved', 'sealed')
if h[2] then return {'missing'} end
local own, given = redis.call('GET', sums) or '', ARGV[4]
if string.sub(given, 1, #own) ~= own then return {'mismatch'} end
if #given > #own and h[4] and h[1] then return {'mismatch'} end
if #given > #own or not h[1] then
  if given ~= '' then redis.call('SET', sums, given) end
  redis.call('HSET', header, 'segments', ARGV[2], 'rows', ARGV[3],
    'reserved', math.max(tonumber(ARGV[2]), tonumber(h[3] or '0')))
  redis.call('HSETNX', header, 'committed_at', text(now()))
end
redis.call('HSET', header, 'sealed', '1')
conclude()
return read('ok')
