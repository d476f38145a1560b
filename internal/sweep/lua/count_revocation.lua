-- Counts a revocation, unless there are as many others as may be. Returns 1 if it is counted.
-- KEYS: the counted revocations by time.
-- ARGV: the revocation's name, its time, the time before which others no longer count, how many
-- there may be, how long the counts are stored in ms.
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', '(' .. ARGV[3])
if not redis.call('ZSCORE', KEYS[1], ARGV[1]) and redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[4]) then return 0 end
redis.call('ZADD', KEYS[1], ARGV[2], ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[5])
return 1
