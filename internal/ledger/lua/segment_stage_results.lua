-- ARGV: name of the segment, nonce of the writer, then for each row: row, outcome, result. Settles rows
-- of a staged segment whose results were known when they were submitted.
local no = notWriter(string.match(ARGV[1], '^(.*)/'), ARGV[2])
if no then return no end
staging = true
for i = 3, #ARGV, 3 do
  if redis.call('GETBIT', settled, ARGV[i]) == 0 then settle(ARGV[i], ARGV[i + 1], ARGV[i + 2]) end
end
count()
return {'ok'}
