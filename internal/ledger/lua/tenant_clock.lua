-- Advances the time by which runs are deleted. Answers {'ok', that time in ms, Redis' time in
-- ms}.
local at, t = steady()
allowWrites()
redis.call('HSET', clock, 'seen', text(t), 'steady', text(at))
return {'ok', at, t}
