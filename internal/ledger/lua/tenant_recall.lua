-- Has up to 1,000 segments inspected now that a dispatcher may have taken, which are due within
-- taken_ms, and answers {'ok', their number}.
local segments = redis.call('ZRANGEBYSCORE', due, '(' .. text(t), text(t + taken_ms), 'LIMIT', 0, 1000)
if #segments == 0 then return {'ok', 0} end
allowWrites()
soon(t, segments)
return {'ok', #segments}
