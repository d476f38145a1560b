-- ARGV: session. Forgets the session.
redis.call('ZREM', seen, ARGV[1])
redis.call('HDEL', about, ARGV[1])
return {'ok'}
