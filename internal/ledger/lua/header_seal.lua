-- ARGV: incarnation. Commits a run finally whose scan has ended, once none of its rows is
-- left to commit or to be kept.
local no = refused()
if no then return no end
local h = redis.call('HMGET', header, 'scan_ended', 'sealed', 'deleting_at')
if h[3] then return {'missing'} end
if not h[1] or h[2] or place('staged') < place('past') then return {'passed'} end
if (redis.call('HGET', scan, 'kept') or '') ~= '' then return {'passed'} end
allowWrites()
redis.call('UNLINK', scan, found, seen)
redis.call('HSET', header, 'sealed', '1')
conclude()
return read('ok')
