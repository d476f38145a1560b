-- ARGV: incarnation, numbers of segments that have open rows again, since a Redis has
-- lost how they were settled.
if not present() then return {'missing'} end
allowWrites()
for i = 2, #ARGV do redis.call('SETBIT', closed, ARGV[i], 0) end
redis.call('HDEL', header, 'ended_at', 'finished_at')
return {'ok'}
