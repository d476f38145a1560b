-- ARGV: retention. Forgets a run that has ended.
local r = redis.call('HMGET', run, 'kind', 'ended_at')
if not r[1] then return {'missing'} end
if not r[2] then return {'open'} end
redis.call('UNLINK', unpack(KEYS))
return {'ok'}
