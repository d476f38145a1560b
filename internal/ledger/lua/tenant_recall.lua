-- ARGV: ms. Has up to 1,000 segments inspected now that are due within that time, and answers {'ok',
-- their number}.
local segments = redis.call('ZRANGEBYSCORE', due, '(' .. text(t), text(t + ARGV[1]), 'LIMIT', 0, 1000)
if #segments == 0 then return {'ok', 0} end
allowWrites()
soon(t, segments)
return {'ok', #segments}
