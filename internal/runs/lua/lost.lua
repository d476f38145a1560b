-- ARGV: retention, number of rows that are lost.
local r = redis.call('HMGET', run, 'kind', 'ended_at', 'paused')
if not r[1] then return {'missing'} end
-- Of a run that was paused meanwhile no row has to have a task.
if ARGV[2] == '0' or r[2] or r[3] == '1' then
  redis.call('HDEL', run, 'lost', 'lost_at')
else
  redis.call('HSET', run, 'lost', ARGV[2], 'lost_at', now())
end
return {'ok'}
