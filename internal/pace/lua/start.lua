-- Starts the tenant. Answers the stop that it ends, or nil.
local stored = redis.call('HGET', pace, 'stopped')
redis.call('HDEL', pace, 'stopped')
return stored
