-- Advances the time by which runs are deleted. Answers {'ok', that time in ms, Redis' time in
-- ms, number of runs, some of which count twice}.
local at, t = steady()
allowWrites()
advance(at, t)
return {'ok', at, t, redis.call('ZCARD', runs) + redis.call('ZCARD', singles) + redis.call('ZCARD', ended)}
