-- ARGV: entry, number of segments, number of rows, their sums, when the rows are due in ms or 0.
-- Answers the header, or 'mismatch' if other segments are committed; {'differs', sums} if not these
-- segments are staged, or if some of them await results.
local no = refused()
if no then return no end
local h = redis.call('HMGET', header, 'segments', 'deleting_at', 'sealed', 'awaiting', 'not_before')
if h[2] then return {'missing'} end
local stored = redis.call('GET', sums) or ''
if h[1] then
  if stored ~= ARGV[4] then return {'mismatch'} end
  return read('ok')
end
if stored ~= ARGV[4] or tonumber(h[4] or '0') > 0 then return {'differs', stored} end
local t = now()
redis.call('HSET', header, 'segments', ARGV[2], 'rows', ARGV[3], 'committed_at', text(t), 'sealed', '1')
countStaged()
redis.call('ZREM', staged, entry)
if not conclude(entry, t) then
  soon(math.max(tonumber(ARGV[5]), tonumber(h[5])), t, segments(0, tonumber(ARGV[2])))
end
return read('ok')
