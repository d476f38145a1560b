-- KEYS: the key of the schema. ARGV: the version that is stored, and the one to store
-- instead. Changes nothing if another version is stored by now.
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('SET', KEYS[1], ARGV[2]) end
return 'OK'
