-- Advances the time by which runs are deleted. Answers {'ok', that time in ms, Redis' time in
-- ms}.
local at, t = steady()
allowWrites()
advance(at, t)
return {'ok', at, t}
