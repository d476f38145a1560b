-- ARGV: nonce of the writer, rows, sum, rows of a chunk, the order of release or '', then the
-- chunks. Replaces the segment of an earlier writer.
local no = notWriter(ARGV[1])
if no then return no end
local sum = ARGV[3]
local before = tonumber(redis.call('HGET', header, 'staged'))
redis.call('HSET', header, 'staged', text(math.max(before, number + 1)), 'staged_at', text(t))
redis.call('UNLINK', unpack(KEYS, 1, segment_keys))
redis.call('SETRANGE', sums, text(number * #sum), sum)
redis.call('HSET', head, 'rows', ARGV[2], 'per', ARGV[4], 'next', '0', 'settled', '0')
if ARGV[5] ~= '' then redis.call('SET', order, ARGV[5]) end
local fields = {}
for i = 6, #ARGV do
  fields[#fields + 1] = text(i - 6)
  fields[#fields + 1] = ARGV[i]
  if #fields == 2000 or i == #ARGV then -- unpack takes fewer than 8,000
    redis.call('HSET', chunks, unpack(fields))
    fields = {}
  end
end
return {'ok'}
