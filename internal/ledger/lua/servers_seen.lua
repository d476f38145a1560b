-- KEYS: when each server was first seen, in ms. ARGV: the server.
redis.call('HSETNX', KEYS[1], ARGV[1], text(now()))
return {'ok', tonumber(redis.call('HGET', KEYS[1], ARGV[1]))}
