-- ARGV: run/incarnation, retention in ms. Moves a run from the open to the ended ones.
if discarded(ARGV[1]) then return {'missing'} end
allowWrites()
redis.call('ZREM', open, ARGV[1])
redis.call('ZADD', ended, 'NX', text(steady() + ARGV[2]), ARGV[1])
return {'ok'}
