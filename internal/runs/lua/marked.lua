-- ARGV: retention, name of a mark, then the rows. Answers a string of 0 and 1, which
-- rows are settled, and for each row its mark or ''.
local names = redis.call('HGET', run, 'marks')
if redis.call('EXISTS', run) == 0 then return {'missing'} end
local used = string.find(' ' .. (names or '') .. ' ', ' ' .. ARGV[2] .. ' ', 1, true)
local bits, marks = {}, {}
for i = 3, #ARGV do
  bits[i - 2] = redis.call('GETBIT', settled, ARGV[i])
  if used then marks[i - 2] = redis.call('HGET', kept, ARGV[i] .. ':' .. ARGV[2]) or '' end
end
return {'ok', tostring(table.concat(bits)), marks}
