-- ARGV: run/incarnation, number of segments. Takes a run out of the lists and stores
-- that its segments are to be deleted.
allowWrites()
redis.call('HSET', trash, ARGV[1], ARGV[2])
redis.call('ZREM', runs, ARGV[1])
redis.call('ZREM', open, ARGV[1])
redis.call('ZREM', ended, ARGV[1])
return {'ok'}
