-- ARGV: interval, burst, interval of a sweep's share or 0, interval of the API's
-- bucket, then the blocks that the permit was to probe.
local at = now()
local r = redis.call('HMGET', pace, 'tat', 'paused_until', 'sweep_tat', 'api_tat')
local function give_back(field, interval, value)
  if value then redis.call('HSET', pace, field, text(gcra_refund(tonumber(interval), 1, tonumber(value)))) end
end
-- A pause that came meanwhile has set how the tenant restarts.
if tonumber(r[2] or '0') <= at then
  give_back('tat', ARGV[1], r[1])
  give_back('sweep_tat', ARGV[3], r[3])
  give_back('api_tat', ARGV[4], r[4])
end
count_use(at, -1)
for i = 5, #ARGV do
  local value = redis.call('HGET', pace, 'blocked:' .. ARGV[i])
  if value then
    redis.call('HSET', pace, 'blocked:' .. ARGV[i], text(at) .. string.match(value, ':.*$'))
  end
end
return 0
