-- ARGV: name of the segment, nonce of the writer, rows, sum, rows of a chunk, the order of release or
-- '', the number of rows with a due time, which are the first of that order, then the chunks. Replaces
-- the segment of an earlier writer.
local entry, digits = string.match(ARGV[1], '^(.*)/(%d+)$')
local no = notWriter(entry, ARGV[2])
if no then return no end
local number, sum = tonumber(digits), ARGV[4]
local before = tonumber(redis.call('HGET', header, 'staged'))
redis.call('HSET', header, 'staged', text(math.max(before, number + 1)), 'staged_at', text(now()))
redis.call('UNLINK', unpack(KEYS, 1, segment_keys))
redis.call('SETRANGE', sums, text(number * #sum), sum)
redis.call('HSET', head, 'name', ARGV[1], 'rows', ARGV[3], 'per', ARGV[5], 'next', ARGV[7], 'settled', '0')
if ARGV[6] ~= '' then redis.call('SET', order, ARGV[6]) end
local fields = {}
for i = 8, #ARGV do
  fields[#fields + 1] = text(i - 8)
  fields[#fields + 1] = ARGV[i]
  if #fields == 2000 or i == #ARGV then -- unpack takes fewer than 8,000
    redis.call('HSET', chunks, unpack(fields))
    fields = {}
  end
end
return {'ok'}
