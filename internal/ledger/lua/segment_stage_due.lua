-- ARGV: nonce of the writer, then due times in ms and rows, alternating. Has rows of a staged segment
-- wait for their first release.
local no = notWriter(ARGV[1])
if no then return no end
redis.call('ZADD', first, unpack(ARGV, 2))
return {'ok'}
