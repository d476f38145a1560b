-- KEYS: the index. ARGV: id, score with which it was read. A run of the same id
-- created meanwhile has another score, and stays.
if redis.call('ZSCORE', KEYS[1], ARGV[1]) == ARGV[2] then
  redis.call('ZREM', KEYS[1], ARGV[1])
end
return 0
