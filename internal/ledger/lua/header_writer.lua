-- ARGV: entry, nonce of a writer, which is the only one from now on that stages rows of the run and
-- commits them. It begins with the first row: segments of an earlier writer do not count.
local no = refused()
if no then return no end
local h = redis.call('HMGET', header, 'segments', 'deleting_at')
if h[2] then return {'missing'} end
if h[1] then return {'mismatch'} end
redis.call('HSET', header, 'writer', ARGV[2], 'staged_at', text(t))
redis.call('UNLINK', sums)
return {'ok'}
