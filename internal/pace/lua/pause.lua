-- ARGV: interval, burst, how long. Answers 1 if the tenant was not paused before.
local at = now()
allow_writes()
local due = at + ARGV[3]
local r = redis.call('HMGET', pace, 'tat', 'tat_set', 'paused_until', 'paused_until_set')
local before = read_pause(at, r[3], r[4])
if due > before then
  local tat = read_tat('tat', ARGV[1], ARGV[2], math.max(at, before), r[1], r[2])
  put('tat', gcra_drain(tonumber(ARGV[1]), tonumber(ARGV[2]), due, tat), due)
  put('paused_until', due, at)
end
return before <= at and 1 or 0
