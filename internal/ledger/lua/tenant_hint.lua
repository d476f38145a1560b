-- ARGV: due times in ms and segments, alternating. Has each segment inspected at that
-- time, unless it is to be inspected earlier.
allowWrites()
for i = 1, #ARGV, 2 do redis.call('ZADD', due, 'LT', ARGV[i], ARGV[i + 1]) end
return {'ok'}
