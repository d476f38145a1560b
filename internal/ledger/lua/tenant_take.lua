-- ARGV: the most segments, at most 1,000, ms until they are due again unless they are inspected.
-- Answers {'ok', segments that are to be inspected now, when the next is due in ms, 0 for now, or
-- -1, now, the first runs that have ended and are not finished}.
local t = now()
local most = math.min(ARGV[1], 1000)
local segments = redis.call('ZRANGEBYSCORE', due, '-inf', text(t), 'LIMIT', 0, most)
for _, segment in ipairs(redis.call('ZRANGEBYSCORE', due, '(' .. text(t + ahead_ms), '+inf', 'LIMIT', 0, most - #segments)) do
  segments[#segments + 1] = segment
end
if #segments > 0 then
  local entries = {}
  for _, segment in ipairs(segments) do
    entries[#entries + 1] = text(t + ARGV[2])
    entries[#entries + 1] = segment
  end
  allowWrites()
  redis.call('ZADD', due, unpack(entries))
end
local next = tonumber(redis.call('ZRANGE', due, 0, 0, 'WITHSCORES')[2])
return {'ok', segments, next and math.max(next, 0) or -1, t, redis.call('ZRANGE', finishing, 0, 99)}
