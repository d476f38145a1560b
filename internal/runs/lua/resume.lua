-- ARGV: retention. Raises the generation of a paused run, so that what is still
-- queued of it is told from what is enqueued now. Who finds that resumed already,
-- and not yet finished, goes on with the same generation. Answers whether there
-- is anything to enqueue.
local r = redis.call('HMGET', run, 'kind', 'ended_at', 'sealed', 'paused', 'resuming', 'walk_step')
if not r[1] then return {'missing'} end
if r[2] then return {'ended'} end
if r[4] ~= '1' then return {'ok', r[5] and 1 or 0} end
if r[3] ~= '1' and not r[6] then return {'unsealed'} end
local generation = redis.call('HINCRBY', run, 'generation', 1)
redis.call('HSET', run, 'resuming', generation, 'floor', generation)
redis.call('HDEL', run, 'paused')
return {'ok', 1}
