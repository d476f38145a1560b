-- ARGV: name of the segment, nonce of the writer, then due times in ms and rows, alternating. Has rows
-- of a staged segment wait for their first release.
local no = notWriter(string.match(ARGV[1], '^(.*)/'), ARGV[2])
if no then return no end
redis.call('ZADD', first, unpack(ARGV, 3))
return {'ok'}
