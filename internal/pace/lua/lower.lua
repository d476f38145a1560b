-- ARGV: the limit where none is there, the new one, how long that lasts in milliseconds.
-- Answers 1 if it was higher.
local is = tonumber(redis.call('GET', KEYS[1]) or ARGV[1])
if tonumber(ARGV[2]) >= is then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1
