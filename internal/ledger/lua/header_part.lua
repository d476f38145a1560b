-- ARGV: entry, number of the segment, its sum, its rows, number of its first block, number behind
-- its last block. Commits a segment that was staged as the next one of a scan, and removes its
-- blocks.
local no = refused()
if no then return no end
local h = redis.call('HMGET', header, 'segments', 'rows', 'sealed', 'deleting_at', 'scan', 'awaiting', 'not_before')
if h[4] then return {'missing'} end
local number, from, past, size = tonumber(ARGV[2]), tonumber(ARGV[5]), tonumber(ARGV[6]), #ARGV[3]
if not h[5] or h[1] ~= ARGV[2] or h[3] or place('first') ~= from or past > place('past') then return {'passed'} end
if redis.call('GETRANGE', sums, number * size, (number + 1) * size - 1) ~= ARGV[3] or tonumber(h[6] or '0') > 0 then
  return {'passed'}
end
local t = now()
redis.call('HSET', header, 'segments', text(number + 1), 'rows', text(h[2] + ARGV[4]))
countStaged()
redis.call('HSET', scan, 'first', ARGV[6], 'since', text(t))
redis.call('HINCRBY', scan, 'rows', text(-ARGV[4]))
redis.call('LTRIM', found, past - from, -1)
soon(tonumber(h[7]), t, segments(number, number + 1))
return read('ok')
