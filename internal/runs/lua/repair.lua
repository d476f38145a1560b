-- ARGV: retention. Raises the generation of a run that has lost tasks, so that what
-- is put back has ids of its own; the floor stays, so that what still stands goes on.
-- Who finds the run being repaired or resumed goes on with the same generation.
local r = redis.call('HMGET', run, 'kind', 'ended_at', 'sealed', 'paused', 'resuming', 'walk_step')
if not r[1] then return {'missing'} end
if r[2] then return {'ended'} end
if r[3] ~= '1' and not r[6] then return {'unsealed'} end
if r[4] == '1' then return {'paused'} end
if not r[5] then
  redis.call('HSET', run, 'resuming', redis.call('HINCRBY', run, 'generation', 1))
end
return {'ok'}
