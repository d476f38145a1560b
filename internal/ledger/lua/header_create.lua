-- ARGV: incarnation, tenant, kind, description, flags, not before in ms or 0.
-- Answers {'ok', header}, which is that of an earlier run if there is one.
if redis.call('EXISTS', header) == 1 then return read('ok') end
local at = text(now())
redis.call('UNLINK', closed, sums)
redis.call('HSET', header, 'inc', ARGV[1], 'tenant', ARGV[2], 'kind', ARGV[3], 'about', ARGV[4],
  'flags', ARGV[5], 'not_before', ARGV[6], 'v', text(version(0)),
  'created_at', at, 'staged_at', at, 'reserved', '0')
return read('ok')
