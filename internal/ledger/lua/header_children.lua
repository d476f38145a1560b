-- ARGV: entry, children as they were read, these and another one, whether the run had ended when
-- it was read: then the child is added only if Redis has not lost the end.
local no = refused()
if no then return no end
local h = redis.call('HMGET', header, 'children', 'ended_at', 'deleting_at')
if h[3] then return {'missing'} end
if h[1] == ARGV[3] then return {'ok'} end -- its answer was lost
if ARGV[4] == '1' and not h[2] then return {'open'} end
if (h[1] or '') ~= ARGV[2] then return {'raced'} end
redis.call('HSET', header, 'children', ARGV[3])
return {'ok'}
