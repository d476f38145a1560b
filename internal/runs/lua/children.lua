-- ARGV: retention, children as they were read, children as they are to be.
local r = redis.call('HMGET', run, 'kind', 'ended_at', 'children')
if not r[1] then return {'missing'} end
if not r[2] then return {'open'} end
if (r[3] or '') ~= ARGV[2] then return {'raced'} end
if #ARGV[3] < #ARGV[2] then allowWrites() end -- a child is being deleted
if ARGV[3] == '' then
  redis.call('HDEL', run, 'children')
else
  redis.call('HSET', run, 'children', ARGV[3])
end
return {'ok'}
