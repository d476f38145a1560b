-- Answers {'ok', when the segment is to be inspected, phases of its rows, head}. Writes nothing.
if not control() then return {'missing'} end
local at, phases = report()
return {'ok', at, phases, redis.call('HGETALL', head)}
