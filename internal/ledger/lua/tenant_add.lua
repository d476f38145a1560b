-- ARGV: run/incarnation, 1 for a single row. Lists a run as open, unless it is listed as
-- open or ended.
if discarded(ARGV[1]) then return {'missing'} end
local at, t = steady()
allowWrites()
if redis.call('EXISTS', clock) == 0 then advance(at, t) end
redis.call('ZADD', ARGV[2] == '1' and singles or runs, 'NX', text(t), ARGV[1])
if not redis.call('ZSCORE', ended, ARGV[1]) then redis.call('ZADD', open, 'NX', text(at), ARGV[1]) end
return {'ok'}
