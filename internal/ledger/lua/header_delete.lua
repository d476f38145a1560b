-- ARGV: incarnation, '' or when the staged run's last segment was staged, in ms: then the
-- run is deleted only if that is still so. Stores the intention to delete the run, and
-- answers the header.
local no = refused()
if no then return no end
local h = redis.call('HMGET', header, 'segments', 'ended_at', 'staged_at')
if h[1] and not h[2] then return {'open'} end
if ARGV[2] ~= '' and (h[1] or h[3] ~= ARGV[2]) then return {'changed'} end
allowWrites()
redis.call('HSETNX', header, 'deleting_at', text(now()))
return read('ok')
