-- KEYS: the set of runs that may be open. ARGV: id. Adds a run that is being cancelled. SREM
-- changes nothing, and is there for maxmemory: see allowWrites in prelude.lua.
redis.call('SREM', KEYS[1], '')
return redis.call('SADD', KEYS[1], ARGV[1])
