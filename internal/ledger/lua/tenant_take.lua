-- ARGV: the most segments. Takes segments that are to be inspected now out of the index.
-- Answers {'ok', segments, when the next is due in ms or -1}.
local segments = redis.call('ZRANGEBYSCORE', due, '-inf', text(now()), 'LIMIT', 0, ARGV[1])
for _, segment in ipairs(segments) do redis.call('ZREM', due, segment) end
local next = tonumber(redis.call('ZRANGE', due, 0, 0, 'WITHSCORES')[2])
return {'ok', segments, next or -1}
