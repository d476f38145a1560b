-- ARGV: retention, row, name, value.
-- The run remembers which names are in use, so that settling can drop them all.
local r = redis.call('HMGET', run, 'sealed', 'total', 'marks')
if not r[1] then return {'missing'} end
if r[1] == '1' and tonumber(ARGV[2]) >= tonumber(r[2]) then return {'mismatch', 'item', ARGV[2]} end
local marks = r[3] or ''
if not string.find(' ' .. marks .. ' ', ' ' .. ARGV[3] .. ' ', 1, true) then
  redis.call('HSET', run, 'marks', marks == '' and ARGV[3] or marks .. ' ' .. ARGV[3])
end
redis.call('HSET', kept, ARGV[2] .. ':' .. ARGV[3], ARGV[4])
conclude()
return {'ok'}
