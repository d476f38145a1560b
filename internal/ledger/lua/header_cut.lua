-- ARGV: incarnation, number of segments, number of the first block that is not committed,
-- number behind the last block of the next segment. Stores which blocks the next segment
-- has, unless that is stored. Answers {'ok', the latter number}, so that all who stage the
-- segment stage the same.
local no = refused()
if no then return no end
local h = redis.call('HMGET', header, 'segments', 'sealed', 'deleting_at')
if h[3] then return {'missing'} end
if h[2] or h[1] ~= ARGV[2] or place('staged') ~= tonumber(ARGV[3]) then return {'passed'} end
if redis.call('HEXISTS', scan, 'cut') == 0 then redis.call('HSET', scan, 'cut', ARGV[4]) end
return {'ok', place('cut')}
