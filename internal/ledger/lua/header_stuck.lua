-- ARGV: entry, why the run makes no progress. Stores it with the time, and since when it has been
-- so without a gap. The end of a run whose follow-ups failed is tried again later: others come
-- first.
local no = refused()
if no then return no end
local h = redis.call('HMGET', header, 'deleting_at', 'finished_at', 'stuck_since', 'stuck_at')
if h[1] then return {'missing'} end
if h[2] then return {'ended'} end
local since = tonumber(h[3] or t)
if math.abs(t - tonumber(h[4] or t)) > stuck_ms then since = t end
redis.call('HSET', header, 'stuck', ARGV[2], 'stuck_since', text(since), 'stuck_at', text(t))
redis.call('ZADD', stuck, text(t), entry)
redis.call('ZADD', finishing, 'XX', text(t + end_again_ms), entry)
return {'ok'}
