-- ARGV: retention, next try in ms or 0, reason.
local r = redis.call('HMGET', run, 'walk_step', 'sealed')
if not r[1] then return {'missing'} end
if r[2] ~= '1' then redis.call('HSET', run, 'walk_note', ARGV[2] .. ':' .. ARGV[3]) end
return {'ok'}
