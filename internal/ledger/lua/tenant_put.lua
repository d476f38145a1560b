-- ARGV: segment, due time in ms or -1 for none. Stores when a segment that was taken is
-- to be inspected next. A hint that came since it was taken remains if it is earlier.
local at = redis.call('ZSCORE', due, ARGV[1])
allowWrites()
if at and tonumber(at) == tonumber(taken) then redis.call('ZREM', due, ARGV[1]) end
if ARGV[2] ~= '-1' then redis.call('ZADD', due, 'LT', ARGV[2], ARGV[1]) end
return {'ok'}
