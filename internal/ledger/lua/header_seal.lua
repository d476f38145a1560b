-- ARGV: entry. Commits a run finally whose scan has ended, once none of its rows is left to commit.
local no = refused()
if no then return no end
local h = redis.call('HMGET', header, 'scan_ended', 'sealed', 'deleting_at')
if h[3] then return {'missing'} end
if not h[1] or h[2] or place('first') < place('past') then return {'passed'} end
allowWrites()
redis.call('UNLINK', scan, found, seen)
redis.call('HSET', header, 'sealed', '1')
conclude(entry, now())
return read('ok')
