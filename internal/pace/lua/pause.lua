-- ARGV: interval, burst, how long. Answers 1 if the tenant was not paused before.
local at = now()
local due = at + ARGV[3]
local r = redis.call('HMGET', pace, 'tat', 'paused_until')
local before = tonumber(r[2] or '0')
if due > before then
  local tat = gcra_drain(tonumber(ARGV[1]), tonumber(ARGV[2]), due, tonumber(r[1] or '0'))
  redis.call('HSET', pace, 'paused_until', text(due), 'tat', text(tat))
end
return before <= at and 1 or 0
