-- Starts the tenant. Answers the stop that it ends, or nil.
local stored = redis.call('HGET', pace, 'stopped')
if stored then
  allow_writes()
  renew_blocks(now())
end
redis.call('HDEL', pace, 'stopped')
return stored
