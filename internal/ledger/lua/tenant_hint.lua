-- ARGV: due times in ms and segments, alternating. Has each segment inspected at that
-- time, unless it is to be inspected earlier. One that is to be inspected now is stored by
-- Redis' time less at_once, which is due whatever the clock does, and shows since when.
local t = now()
allowWrites()
for i = 1, #ARGV, 2 do
  local at = tonumber(ARGV[i])
  if at <= t then at = t - at_once end
  redis.call('ZADD', due, 'LT', text(at), ARGV[i + 1])
end
return {'ok'}
