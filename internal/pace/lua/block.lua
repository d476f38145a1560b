-- ARGV: operation, reason, what a person should do. Answers 1 if it was not blocked before.
-- A probe that is set stays set: being told of the block again must not put it off.
local at = now()
local field, since_field = 'blocked:' .. ARGV[1], 'blocked_since:' .. ARGV[1]
local r = redis.call('HMGET', pace, field, since_field)
local probe_at, _, every = read_block(ARGV[1], at, r[1], r[2])
allow_writes()
local fresh = not probe_at
if fresh then
  probe_at, every = at, first_probe
  redis.call('HSET', pace, since_field, text(at))
end
if probe_at <= at then probe_at = at + every end
redis.call('HSET', pace, field, text(probe_at) .. ':' .. ARGV[2], 'blocked_fix:' .. ARGV[1], ARGV[3])
return fresh and 1 or 0
