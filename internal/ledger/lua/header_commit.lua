-- ARGV: incarnation, number of segments, number of rows, sums, 1 if there are no more
-- segments to come. Answers the header, or 'mismatch' if other segments are committed.
local no = refused()
if no then return no end
local h = redis.call('HMGET', header, 'segments', 'deleting_at', 'reserved', 'sealed')
if h[2] then return {'missing'} end
local own, given, final = redis.call('GET', sums) or '', ARGV[4], ARGV[5] == '1'
if string.sub(given, 1, #own) ~= string.sub(own, 1, #given) then return {'mismatch'} end
if #given < #own and final then return {'mismatch'} end
if #given > #own and h[4] and h[1] then return {'mismatch'} end
if #given > #own or not h[1] then
  if given ~= '' then redis.call('SET', sums, given) end
  redis.call('HSET', header, 'segments', ARGV[2], 'rows', ARGV[3],
    'reserved', math.max(tonumber(ARGV[2]), tonumber(h[3] or '0')))
  redis.call('HSETNX', header, 'committed_at', text(now()))
end
if final then redis.call('HSET', header, 'sealed', '1') end
conclude()
return read('ok')
