-- ARGV: entry, nonce of the writer, number of segments, number of rows, their sums, when the rows are
-- due in ms or 0, number of segments of which every row is settled, then outcomes and how many rows
-- have each. Answers the header; 'mismatch' if other segments are committed, 'differs' if not these
-- are staged, or if a child has not claimed as many rows: Redis has lost some.
local no = refused()
if no then return no end
local h = redis.call('HMGET', header, 'segments', 'deleting_at', 'writer', 'not_before', 'parent', 'claimed')
if h[2] then return {'missing'} end
local same = (redis.call('GET', sums) or '') == ARGV[5]
if h[1] then return same and read('ok') or {'mismatch'} end
if h[3] ~= ARGV[2] then return {'replaced'} end
if not same then return {'differs'} end
if h[5] and (h[6] or '0') ~= ARGV[4] then return {'differs'} end
redis.call('HSET', header, 'segments', ARGV[3], 'rows', ARGV[4], 'committed_at', text(t), 'closed', ARGV[7])
for i = 8, #ARGV, 2 do redis.call('HSET', header, 'n:' .. ARGV[i], ARGV[i + 1]) end
redis.call('HDEL', header, 'writer')
redis.call('ZREM', staged, entry)
if not conclude(entry) then
  soon(math.max(tonumber(ARGV[6]), tonumber(h[4])), segments(0, tonumber(ARGV[3])))
end
return read('ok')
