-- ARGV: session, its description. Renews the session and forgets those that died a day
-- ago. Answers {'ok', 1 if the session was not known, now}.
allowWrites()
local newest = score(seen, -1)
if not newest or math.abs(t - newest) > gap_ms then redis.call('SET', since, text(t)) end
for _, session in ipairs(redis.call('ZRANGEBYSCORE', seen, '(' .. text(t), '+inf')) do
  redis.call('ZADD', seen, text(t), session) -- renewed while Redis' clock was ahead
end
redis.call('ZADD', seen, text(t), ARGV[1])
local new = redis.call('HSET', about, ARGV[1], ARGV[2])
for _, session in ipairs(redis.call('ZRANGEBYSCORE', seen, '-inf', text(t - 86400000), 'LIMIT', 0, 100)) do
  redis.call('ZREM', seen, session)
  redis.call('HDEL', about, session)
end
return {'ok', new, t}
