-- Answers the time, the end of the pause, and all that is stored.
local at = now()
local r = redis.call('HMGET', pace, 'paused_until', 'paused_until_set')
return {at, pause_end(at, r[1], r[2]), redis.call('HGETALL', pace)}
