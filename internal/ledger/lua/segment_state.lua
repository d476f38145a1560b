-- Answers {'ok', when the segment is to be inspected, phases of its rows, head}. Writes nothing.
local flags, before = control()
if not flags then return {'missing'} end
local at, phases = report(now(), flags, before)
return {'ok', at, phases, redis.call('HGETALL', head)}
