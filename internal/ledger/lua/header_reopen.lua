-- ARGV: incarnation, numbers of segments that have open rows again, since a Redis has
-- lost how they were settled.
local no = refused()
if no then return no end
allowWrites()
for i = 2, #ARGV do redis.call('SETBIT', closed, ARGV[i], 0) end
redis.call('HDEL', header, 'ended_at', 'finished_at')
return {'ok'}
