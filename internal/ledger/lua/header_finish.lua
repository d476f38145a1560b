-- ARGV: entry, retention in ms. Stores that the follow-ups of the end are done, from which on the
-- retention counts.
local no = refused()
if no then return no end
if redis.call('HEXISTS', header, 'ended_at') == 0 then return {'open'} end
allowWrites()
redis.call('HSETNX', header, 'finished_at', text(t))
redis.call('ZREM', finishing, entry)
redis.call('HDEL', header, 'stuck', 'stuck_since', 'stuck_at')
redis.call('ZREM', stuck, entry)
redis.call('ZREM', open, entry)
redis.call('ZREM', singles, entry)
redis.call('ZADD', ended, 'NX', text(steady() + ARGV[2]), entry)
return {'ok'}
