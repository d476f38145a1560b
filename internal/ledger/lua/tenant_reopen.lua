-- ARGV: run/incarnation. Lists a run as open again.
if discarded(ARGV[1]) then return {'missing'} end
allowWrites()
redis.call('ZREM', ended, ARGV[1])
redis.call('ZADD', runs, 'NX', text(now()), ARGV[1])
redis.call('ZADD', open, 'NX', text((steady())), ARGV[1])
return {'ok'}
