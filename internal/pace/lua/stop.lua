-- ARGV: who and why, as JSON. Stops the tenant unless it is stopped. Answers the stop.
local stored = redis.call('HGET', pace, 'stopped')
if stored then return stored end
allow_writes()
stored = text(now()) .. ':' .. ARGV[1]
redis.call('HSET', pace, 'stopped', stored)
return stored
