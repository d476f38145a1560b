-- ARGV: run/incarnation, number of segments. Takes a run out of the lists and stores, with
-- the time, that its header and segments are to be deleted.
allowWrites()
redis.call('HSET', trash, ARGV[1], ARGV[2] .. ':' .. text((steady())))
redis.call('ZREM', runs, ARGV[1])
redis.call('ZREM', singles, ARGV[1])
redis.call('ZREM', open, ARGV[1])
redis.call('ZREM', ended, ARGV[1])
return {'ok'}
