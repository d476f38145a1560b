-- Advances the time by which runs are deleted. Answers {'ok', that time in ms, Redis' time in
-- ms}; without the times if the tenant has no runs: then no time need pass.
if redis.call('EXISTS', runs, singles, open, staged, ended) == 0 then return {'ok'} end
local at = steady()
allowWrites()
advance(at)
return {'ok', at, t}
