-- ARGV: ms. Has every key of a segment expire, in case that no dispatcher deletes it.
for i = 1, 13 do redis.call('PEXPIRE', KEYS[i], ARGV[1]) end
return {'ok'}
