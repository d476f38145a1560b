-- ARGV: nonce of the writer, then for each row: row, outcome, result. Settles rows of a staged segment
-- whose results were known when they were submitted.
local no = notWriter(ARGV[1])
if no then return no end
staging = true
for i = 2, #ARGV, 3 do
  if redis.call('GETBIT', settled, ARGV[i]) == 0 then settle(ARGV[i], ARGV[i + 1], ARGV[i + 2]) end
end
count()
return {'ok'}
