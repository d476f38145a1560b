-- ARGV: the most segments, at most 1,000. Takes segments that are to be inspected now out
-- of the index. Answers {'ok', segments, when the next is due in ms, 0 for now, or -1, now}, without
-- segments of runs in the trash: a node of Redis may have gone back to before their deletion.
local t, segments = now(), {}
local taken = redis.call('ZRANGEBYSCORE', due, '-inf', text(t), 'LIMIT', 0, math.min(ARGV[1], 1000))
for _, segment in ipairs(taken) do
  redis.call('ZREM', due, segment)
  if not discarded(string.match(segment, '^(.*)/') or segment) then segments[#segments + 1] = segment end
end
local next = tonumber(redis.call('ZRANGE', due, 0, 0, 'WITHSCORES')[2])
return {'ok', segments, next and math.max(next, 0) or -1, t}
