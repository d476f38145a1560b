-- ARGV: due times in ms and segments, alternating. Has each segment inspected at that
-- time, unless it is to be inspected earlier.
allowWrites()
redis.call('ZADD', due, 'LT', unpack(ARGV))
return {'ok'}
