-- ARGV: retention, number of rows that are lost, 1 if the task of the walk is.
local r = redis.call('HMGET', run, 'kind', 'ended_at', 'paused', 'sealed')
if not r[1] then return {'missing'} end
-- Of a run that was paused meanwhile no row has to have a task, nor the walk.
local over = r[2] or r[3] == '1'
if ARGV[2] == '0' or over then
  redis.call('HDEL', run, 'lost', 'lost_at')
else
  redis.call('HSET', run, 'lost', ARGV[2], 'lost_at', now())
end
if ARGV[3] == '0' or over or r[4] == '1' then
  redis.call('HDEL', run, 'walk_lost_at')
else
  redis.call('HSET', run, 'walk_lost_at', now())
end
return {'ok'}
