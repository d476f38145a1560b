-- ARGV: the most segments. Takes segments that are to be inspected now. Answers {'ok',
-- segments, when the next is due in ms or -1}.
local t = now()
local segments = redis.call('ZRANGEBYSCORE', due, '-inf', text(t), 'LIMIT', 0, ARGV[1])
if #segments > 0 then allowWrites() end
for _, segment in ipairs(segments) do redis.call('ZADD', due, taken, segment) end
local next = tonumber(redis.call('ZRANGE', due, 0, 0, 'WITHSCORES')[2])
if not next or next >= tonumber(taken) then next = -1 end
return {'ok', segments, next}
