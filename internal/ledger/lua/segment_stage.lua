-- ARGV: name of the segment, rows, sum, rows of a chunk, 1 if it is the run's last segment, 1 if it
-- awaits due times or results, the order of release or '', the number of rows with a due time,
-- which are the first of that order, then the chunks. Replaces a staged segment that differs.
local entry, digits = string.match(ARGV[1], '^(.*)/(%d+)$')
local run = redis.call('HMGET', header, 'inc', 'segments', 'staged', 'deleting_at', 'sealed')
if run[1] ~= string.match(entry, '/(.*)$') or run[4] then return {'missing'} end
local number, sum = tonumber(digits), ARGV[3]
if number < tonumber(run[2] or '0') then -- committed
  local stored = redis.call('GETRANGE', sums, number * #sum, (number + 1) * #sum - 1)
  return {stored == sum and 'ok' or 'mismatch'}
end
if run[5] then return {'mismatch'} end
local h = redis.call('HMGET', head, 'sum', 'next')
redis.call('HSET', header, 'staged', text(math.max(tonumber(run[3]), number + 1)), 'staged_at', text(now()))
if h[1] == sum and h[2] == ARGV[8] and (redis.call('GET', order) or '') == ARGV[7] then
  redis.call('HSET', head, 'last', ARGV[5]) -- rows may have been added behind it, or taken away
  return {'ok'}
end
unstage()
redis.call('SETRANGE', sums, text(number * #sum), sum)
redis.call('HSET', head, 'name', ARGV[1], 'rows', ARGV[2], 'sum', sum, 'per', ARGV[4], 'last', ARGV[5],
  'next', ARGV[8], 'settled', '0')
if ARGV[6] == '1' then
  redis.call('HSET', head, 'awaits', '1')
  redis.call('HINCRBY', header, 'awaiting', '1')
end
if ARGV[7] ~= '' then redis.call('SET', order, ARGV[7]) end
local fields = {}
for i = 9, #ARGV do
  fields[#fields + 1] = text(i - 9)
  fields[#fields + 1] = ARGV[i]
  if #fields == 2000 or i == #ARGV then -- unpack takes fewer than 8,000
    redis.call('HSET', chunks, unpack(fields))
    fields = {}
  end
end
return {'ok'}
