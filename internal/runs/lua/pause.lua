-- ARGV: retention.
local r = redis.call('HMGET', run, 'kind', 'ended_at', 'cancelled_at')
if not r[1] then return {'missing'} end
if r[2] or r[3] then return {'ended'} end
allowWrites()
redis.call('HSET', run, 'paused', 1)
return {'ok'}
