-- ARGV: sum, how many rows are settled then or '' if more results are to come, then for
-- each row: row, outcome, result. Settles rows of a staged segment whose results were known
-- when they were submitted. The answer is 'mismatch' if others are settled, by a producer
-- of other rows. A committed segment stays as it is: it was committed with its results.
local stored = redis.call('HGET', head, 'sum')
if not stored then return {'missing'} end
if stored ~= ARGV[1] then return {'mismatch'} end
if control() then return {'ok'} end
outcomes, closed = 'staged:', 'staged_closed'
for i = 3, #ARGV, 3 do
  if redis.call('GETBIT', settled, ARGV[i]) == 0 then settle(ARGV[i], ARGV[i + 1], ARGV[i + 2]) end
end
count()
if ARGV[2] ~= '' then
  if redis.call('HGET', head, 'settled') ~= ARGV[2] then return {'mismatch'} end
  if redis.call('HDEL', head, 'awaits') == 1 then redis.call('HINCRBY', header, 'awaiting', '-1') end
end
return {'ok'}
