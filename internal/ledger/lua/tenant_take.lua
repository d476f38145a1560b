-- ARGV: the most segments, at most 1,000. They are due again after taken_ms unless they are
-- inspected. Answers {'ok', segments that are to be inspected now, when the next is due in ms, 0
-- for now, or -1, now, the first runs that have ended and are to be finished now, 1 if rows are in
-- progress}.
local lists = redis.call('EXISTS', due, finishing, sessions)
if lists == 0 then return {'ok', {}, -1, t, {}, 0} end

local segments, next = {}, score(due, 0)
if next then lists = lists - 1 end
if next and (next <= t or score(due, -1) > t + ahead_ms) then
  local most = math.min(ARGV[1], 1000)
  segments = redis.call('ZRANGEBYSCORE', due, '-inf', text(t), 'LIMIT', 0, most)
  for _, segment in ipairs(redis.call('ZRANGEBYSCORE', due, '(' .. text(t + ahead_ms), '+inf', 'LIMIT', 0, most - #segments)) do
    segments[#segments + 1] = segment
  end
  allowWrites()
  inspect(text(t + taken_ms), segments, 'XX')
  next = score(due, 0)
end
next = next and math.max(next, 0) or -1
if lists == 0 then return {'ok', segments, next, t, {}, 0} end
return {'ok', segments, next, t, redis.call('ZRANGEBYSCORE', finishing, '-inf', text(t), 'LIMIT', 0, 100), redis.call('EXISTS', sessions)}
