-- ARGV: incarnation, numbers of segments of which every row is settled. Answers
-- 'concluded' if the run ended by this call.
local no = refused()
if no then return no end
allowWrites()
for i = 2, #ARGV do redis.call('SETBIT', closed, ARGV[i], 1) end
if conclude() then return {'concluded'} end
return {'ok'}
