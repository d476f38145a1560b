-- ARGV: run/incarnation. Lists a run as open, unless it is listed.
redis.call('ZADD', runs, 'NX', text(now()), ARGV[1])
redis.call('ZADD', open, 'NX', text(now()), ARGV[1])
return {'ok'}
