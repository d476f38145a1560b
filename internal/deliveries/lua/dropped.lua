-- Counts ARGV[2] dropped events of the endpoint ARGV[1] in the state KEYS[1] at the time ARGV[3] in ms. A count whose
-- last one is older than ARGV[4] ms begins anew. The state expires ARGV[5] ms later.
local last = tonumber(redis.call('HGET', KEYS[1], ARGV[1] .. '.dropped_last') or '0')
if ARGV[3] - last > tonumber(ARGV[4]) then
  redis.call('HSET', KEYS[1], ARGV[1] .. '.dropped', 0, ARGV[1] .. '.dropped_since', ARGV[3])
end
redis.call('HSET', KEYS[1], ARGV[1] .. '.dropped_last', ARGV[3])
redis.call('PEXPIRE', KEYS[1], ARGV[5])
return redis.call('HINCRBY', KEYS[1], ARGV[1] .. '.dropped', ARGV[2])
