-- ARGV: retention, then the rows. Answers a string of 0 and 1.
if redis.call('EXISTS', run) == 0 then return {'missing'} end
local bits = {}
for i = 2, #ARGV do bits[i - 1] = redis.call('GETBIT', settled, ARGV[i]) end
-- A concat of one number is a number in some interpreters, and then no string.
return {'ok', tostring(table.concat(bits))}
