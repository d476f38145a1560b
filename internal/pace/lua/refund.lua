-- ARGV: interval, burst, then the blocks that the permit was to probe.
local at = now()
local r = redis.call('HMGET', pace, 'tat', 'paused_until')
-- A pause that came meanwhile has set how the tenant restarts.
if r[1] and tonumber(r[2] or '0') <= at then
  redis.call('HSET', pace, 'tat', text(gcra_refund(tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(r[1]))))
end
count_use(at, -1)
for i = 3, #ARGV do
  local value = redis.call('HGET', pace, 'blocked:' .. ARGV[i])
  if value then
    local _, reason = read_block(value)
    redis.call('HSET', pace, 'blocked:' .. ARGV[i], text(at) .. ':' .. reason)
  end
end
return 0
