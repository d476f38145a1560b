-- ARGV: incarnation, counts, their sum. Stores the sum of the segments' counters, as a
-- hint. Of an ended run it takes none that was read before the end.
local no = refused()
if no then return no end
local h = redis.call('HMGET', header, 'ended_at', 'rows')
if h[1] and tonumber(ARGV[3]) < tonumber(h[2] or '0') then return {'ok'} end
allowWrites()
redis.call('HSET', header, 'counts', ARGV[2])
return {'ok'}
