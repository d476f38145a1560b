-- ARGV: entry, tenant, kind, description, flags, not before in ms or 0, 1 for a single row, and if
-- a scan is to find the rows its progress and its row; then KEYS have head and chunks of that row
-- behind the others. Such a run is committed without rows. Answers {'ok', header}, which is that of
-- an earlier run if there is one.
if redis.call('EXISTS', header) == 1 then return read('ok') end
local at, t = steady()
redis.call('HSET', header, 'inc', incarnation, 'tenant', ARGV[2], 'kind', ARGV[3], 'about', ARGV[4],
  'flags', ARGV[5], 'not_before', ARGV[6], 'created_at', text(t), 'staged_at', text(t), 'staged', '0')
if redis.call('EXISTS', clock) == 0 then advance(at, t) end
redis.call('ZADD', ARGV[7] == '1' and singles or runs, text(t), entry)
redis.call('ZADD', open, text(at), entry)
if ARGV[8] then
  local head, chunks = unpack(KEYS, #KEYS - 1)
  redis.call('HSET', header, 'scan', ARGV[8], 'scan_step', '0', 'committed_at', text(t), 'segments', '0', 'rows', '0')
  redis.call('HSET', head, 'name', scanRow, 'rows', '1', 'per', '1', 'next', '0', 'settled', '0')
  redis.call('HSET', chunks, '0', ARGV[9])
  soon(tonumber(ARGV[6]), t, {scanRow})
else
  redis.call('ZADD', staged, text(at), entry)
end
return read('ok')
