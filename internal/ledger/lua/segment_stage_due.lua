-- ARGV: sum, 1 if nothing more is to come, then due times in ms and rows, alternating. Has
-- rows of a staged segment wait for their first release. A committed segment stays as it is:
-- it was committed with its due times.
local stored = redis.call('HGET', head, 'sum')
if not stored then return {'missing'} end
if stored ~= ARGV[1] then return {'mismatch'} end
if control() then return {'ok'} end
redis.call('ZADD', first, unpack(ARGV, 3))
if ARGV[2] == '1' and redis.call('HDEL', head, 'awaits') == 1 then redis.call('HINCRBY', header, 'awaiting', '-1') end
return {'ok'}
