-- ARGV: incarnation, numbers of segments of which every row is settled. Answers
-- 'concluded' if the run ended by this call.
if not present() then return {'missing'} end
allowWrites()
for i = 2, #ARGV do redis.call('SETBIT', closed, ARGV[i], 1) end
if conclude() then return {'concluded'} end
return {'ok'}
