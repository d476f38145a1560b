-- ARGV: incarnation, tenant, kind, description, flags, not before in ms or 0, and if a scan
-- is to find the rows its progress. Such a run is committed without rows.
-- Answers {'ok', header}, which is that of an earlier run if there is one.
if redis.call('EXISTS', header) == 1 then return read('ok') end
local at = text(now())
redis.call('UNLINK', closed, sums, scan, found)
redis.call('HSET', header, 'inc', ARGV[1], 'tenant', ARGV[2], 'kind', ARGV[3], 'about', ARGV[4],
  'flags', ARGV[5], 'not_before', ARGV[6], 'v', text(version(0)),
  'created_at', at, 'staged_at', at, 'reserved', '0')
if ARGV[7] then
  redis.call('HSET', header, 'scan', ARGV[7], 'scan_step', '1', 'committed_at', at, 'segments', '0', 'rows', '0')
end
return read('ok')
