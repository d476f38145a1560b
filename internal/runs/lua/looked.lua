-- ARGV: retention, row, generation, next look in ms or 0, reason, then names and values of marks.
-- The run remembers which names are in use, so that settling can drop them all.
local r = redis.call('HMGET', run, 'sealed', 'total', 'marks')
if missing(ARGV[3]) then return {'missing'} end
local item = ARGV[2]
if r[1] == '1' and tonumber(item) >= tonumber(r[2]) then return {'mismatch', 'item', item} end
if redis.call('GETBIT', settled, item) == 1 then return {'ok'} end
redis.call('HSET', notes, item, ARGV[4] .. ':' .. ARGV[5])
local marks = r[3] or ''
local known = marks
for i = 6, #ARGV, 2 do
  if not string.find(' ' .. marks .. ' ', ' ' .. ARGV[i] .. ' ', 1, true) then
    marks = marks == '' and ARGV[i] or marks .. ' ' .. ARGV[i]
  end
  redis.call('HSET', kept, item .. ':' .. ARGV[i], ARGV[i + 1])
end
if marks ~= known then redis.call('HSET', run, 'marks', marks) end
return {'ok'}
