-- ARGV: run/incarnation. Lists a run as open again.
if discarded(ARGV[1]) then return {'missing'} end
allowWrites()
redis.call('ZREM', ended, ARGV[1])
if not redis.call('ZSCORE', singles, ARGV[1]) then redis.call('ZADD', runs, 'NX', text(now()), ARGV[1]) end
redis.call('ZADD', open, 'NX', text((steady())), ARGV[1])
return {'ok'}
