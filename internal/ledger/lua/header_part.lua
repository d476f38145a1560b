-- ARGV: incarnation, number of the segment, its sum, its rows, number of its first block,
-- number behind its last block, 1 if it was committed before and Redis has lost that here:
-- then it may have no blocks. Commits the next segment of a scan. Its blocks are kept for a
-- while, since Redis may lose the segment.
local no = refused()
if no then return no end
local h = redis.call('HMGET', header, 'segments', 'rows', 'reserved', 'sealed', 'ended_at', 'deleting_at', 'scan')
if h[6] then return {'missing'} end
local number, from, past, again = tonumber(ARGV[2]), tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7] == '1'
if not h[7] or h[1] ~= ARGV[2] or h[5] or h[4] and not again then return {'passed'} end
if past > from and (h[4] or place('staged') ~= from or past > place('past')) then return {'passed'} end
if not again and place('cut') ~= past then return {'passed'} end
if again then allowWrites() end -- a cancel waits for it
redis.call('APPEND', sums, ARGV[3])
redis.call('HSET', header, 'segments', text(number + 1), 'rows', text(h[2] + ARGV[4]),
  'reserved', text(math.max(number + 1, tonumber(h[3]))))
if past > from then
  local t = text(now())
  local kept = redis.call('HGET', scan, 'kept') or ''
  redis.call('HSET', scan, 'kept', kept .. ARGV[2] .. ',' .. ARGV[5] .. ',' .. ARGV[6] .. ',' .. t .. ';', 'staged', ARGV[6], 'since', t)
  redis.call('HINCRBY', scan, 'rows', text(-ARGV[4]))
  if place('cut') <= past then redis.call('HDEL', scan, 'cut') end
end
return read('ok')
