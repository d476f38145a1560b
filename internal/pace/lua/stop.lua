-- ARGV: who and why, as JSON. Stops the tenant unless it is stopped. Answers the stop.
-- The first write needs no memory, so that the others pass at maxmemory.
local stored = redis.call('HGET', pace, 'stopped')
if stored then return stored end
redis.call('HDEL', pace, 'stopped')
stored = text(now()) .. ':' .. ARGV[1]
redis.call('HSET', pace, 'stopped', stored)
return stored
