-- ARGV: sum, 1 if nothing more is to come, then due times in ms and rows, alternating. Has
-- rows of a staged segment wait for their first release. A committed segment stays as it is:
-- it was committed with its due times.
local h = redis.call('HMGET', head, 'sum', 'v')
if not h[1] then return {'missing'} end
if h[1] ~= ARGV[1] then return {'mismatch'} end
if h[2] then return {'ok'} end
redis.call('ZADD', first, unpack(ARGV, 3))
if ARGV[2] == '1' then redis.call('HDEL', head, 'awaits') end
return {'ok'}
