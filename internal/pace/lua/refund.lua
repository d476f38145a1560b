-- ARGV[1] is the request whose permit is given back, ARGV[2] the blocks that it was to probe.
local ask, at = cjson.decode(ARGV[1]), now()
-- A pause that came meanwhile has set how the tenant restarts.
if tonumber(redis.call('HGET', pace, 'paused_until') or '0') <= at then
  for _, bucket in ipairs(ask.buckets) do
    local tat = redis.call('HGET', pace, bucket.field)
    if tat then redis.call('HSET', pace, bucket.field, text(tat - bucket.interval)) end
  end
end
count_use(at, -1)
for operation in string.gmatch(ARGV[2], '%S+') do
  local value = redis.call('HGET', pace, 'blocked:' .. operation)
  if value then
    redis.call('HSET', pace, 'blocked:' .. operation, text(at) .. string.match(value, ':.*$'))
  end
end
return 0
