-- ARGV: entry, children as they were read, children as they are to be, whether the run had ended
-- when it was read. A child is added to such a run only if Redis has not lost its end.
local no = refused()
if no then return no end
local h = redis.call('HMGET', header, 'children', 'ended_at', 'deleting_at')
if h[3] then return {'missing'} end
if (h[1] or '') == ARGV[3] then return {'ok'} end
if #ARGV[3] > #ARGV[2] and ARGV[4] == '1' and not h[2] then return {'open'} end
if (h[1] or '') ~= ARGV[2] then return {'raced'} end
if #ARGV[3] < #ARGV[2] then allowWrites() end -- a child is deleted
if ARGV[3] == '' then
  redis.call('HDEL', header, 'children')
else
  redis.call('HSET', header, 'children', ARGV[3])
end
return {'ok'}
