-- ARGV: entry. Ends a cancelled run of which no segment that can be read has open rows.
local no = refused()
if no then return no end
local h = redis.call('HMGET', header, 'deleting_at', 'flags', 'segments')
if h[1] then return {'missing'} end
if not has(h[2], 'c') then return {'open'} end
allowWrites()
redis.call('HSET', header, 'closed', h[3])
redis.call('HDEL', header, 'growing')
conclude(entry)
return {'ok'}
