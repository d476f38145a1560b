-- ARGV: run/incarnation. Lists a run as open, unless it is listed as open or ended.
if discarded(ARGV[1]) then return {'missing'} end
allowWrites()
redis.call('ZADD', runs, 'NX', text(now()), ARGV[1])
if not redis.call('ZSCORE', ended, ARGV[1]) then redis.call('ZADD', open, 'NX', text(now()), ARGV[1]) end
return {'ok'}
