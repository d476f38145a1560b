-- KEYS: behind the others, the executions of the scan's row and the keys of the rows that it has
-- found. ARGV: nonce, number of the step, rows of the run, sum of the segment, rows of a chunk, how
-- many chunks follow, each as its number and its content, then for each row its key, when it is due in
-- ms or 0, and outcome and result or ''. Appends rows that a scan has found to the last
-- segment of the run, or as a new one. They wait for their first release. Answers with a status.
local scans_executions, seen = unpack(KEYS, #KEYS - 1)
local h = redis.call('HMGET', header, 'inc', 'flags', 'not_before', 'scan_step', 'rows', 'deleting_at')
if h[1] ~= incarnation or h[6] then return {'missing'} end
flags, before = h[2], tonumber(h[3])

local function answer(status) return receipt({status}) end

if not owned(redis.call('HGET', scans_executions, '0'), ARGV[1]) then return answer('superseded') end
if has(flags, 'c') then return answer('cancelled') end
local from = 7 + 2 * ARGV[6] -- of the rows
local n = (#ARGV - from + 1) / 4
if h[4] == ARGV[2] and tonumber(h[5]) == ARGV[3] + n then return answer('written') end -- its answer was lost
if h[4] ~= ARGV[2] or h[5] ~= ARGV[3] then return {'raced'} end

local present = redis.call('HMGET', head, 'rows', 'settled')
local size = tonumber(present[1] or '0')
redis.call('HSET', head, 'rows', text(size + n), 'next', text(size + n), 'per', ARGV[5])
if not present[1] then
  redis.call('HSET', head, 'settled', '0')
  redis.call('HSET', header, 'segments', text(number + 1), 'staged', text(number + 1))
elseif tonumber(present[2]) >= size then
  redis.call('HINCRBY', header, 'closed', '-1') -- it is open again
end
redis.call('HSET', header, 'rows', text(h[5] + n))
redis.call('SETRANGE', sums, text(number * #ARGV[4]), ARGV[4])
for i = 7, from - 1, 2 do redis.call('HSET', chunks, ARGV[i], ARGV[i + 1]) end
for i = 0, n - 1 do
  local row, key, at, outcome, result = text(size + i), unpack(ARGV, from + 4 * i, from + 4 * i + 3)
  if key ~= '' then redis.call('SADD', seen, key) end
  if outcome ~= '' then
    settle(row, outcome, result)
  else
    at = at == '0' and t or tonumber(at)
    redis.call('ZADD', first, text(at), row)
    if earliest < 0 or at < earliest then earliest = at end
  end
end
return answer('written')
