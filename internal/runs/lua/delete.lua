-- ARGV: retention. Forgets a run that has ended. Of one that its task has created it keeps
-- that it was deleted: a task that is left would create it again.
local r = redis.call('HMGET', run, 'kind', 'ended_at', 'alone', 'created_at')
if not r[1] then return {'missing'} end
if not r[2] then return {'open'} end
for i = 1, run_keys do redis.call('UNLINK', KEYS[i]) end
if r[3] then
  -- A row that says it is of tomorrow is registered for a day longer.
  redis.call('SET', deleted, 1, 'PXAT', math.max(now(), tonumber(r[4])) + ARGV[1])
end
return {'ok'}
