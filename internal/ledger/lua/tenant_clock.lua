-- Advances the time by which runs are deleted. Answers {'ok', that time in ms, Redis' time in
-- ms, number of runs}.
local at, t = steady()
allowWrites()
advance(at, t)
return {'ok', at, t, redis.call('ZCARD', runs) + redis.call('ZCARD', singles)}
