-- ARGV: operation, reason, time between probes. Answers 1 if it was not blocked before.
-- A probe that is set stays set: being told of the block again must not put it off.
local at = now()
local field = 'blocked:' .. ARGV[1]
local probe_at = at + ARGV[3]
local there = redis.call('HGET', pace, field)
if there then
  local set = read_block(there)
  if set > at then probe_at = math.min(set, probe_at) end
end
redis.call('HSET', pace, field, text(probe_at) .. ':' .. ARGV[2])
return there and 0 or 1
