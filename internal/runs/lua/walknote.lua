-- ARGV: retention, generation, next try in ms or 0, reason.
local r = redis.call('HMGET', run, 'walk_step', 'sealed')
if not r[1] or missing(ARGV[2]) then return {'missing'} end
if r[2] ~= '1' then redis.call('HSET', run, 'walk_note', ARGV[3] .. ':' .. ARGV[4]) end
return {'ok'}
