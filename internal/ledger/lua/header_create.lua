-- KEYS: behind the others, the list of the caller's runs, and head and chunks of the row of a scan.
-- ARGV: entry, 1 if lists of runs leave the run out, the progress of the scan that is to find the rows
-- and its row, or '' and '', and the fields of the header, alternating with their values. A run with a
-- scan is committed without rows. Answers {'ok', header}, which is that of an earlier run if there is
-- one.
if redis.call('EXISTS', header) == 1 then return read('ok') end
local at = steady()
redis.call('HSET', header, 'inc', incarnation, 'created_at', text(t), 'staged_at', text(t), 'staged', '0',
  unpack(ARGV, 5))
if redis.call('EXISTS', clock) == 0 then advance(at) end
if ARGV[2] == '1' then
  redis.call('ZADD', singles, text(t), entry)
else
  redis.call('ZADD', runs, text(t), entry)
  if redis.call('HEXISTS', header, 'by') == 1 then redis.call('ZADD', KEYS[run_keys + 1], text(t), entry) end
  redis.call('ZADD', open, text(at), entry)
end
if ARGV[3] ~= '' then
  local head, chunks = unpack(KEYS, #KEYS - 1)
  redis.call('HSET', header, 'scan', ARGV[3], 'scan_step', '0', 'committed_at', text(t), 'segments', '0', 'rows', '0',
    'growing', '1')
  redis.call('HSET', head, 'rows', '1', 'per', '1', 'next', '0', 'settled', '0')
  redis.call('HSET', chunks, '0', ARGV[4])
  soon(tonumber(redis.call('HGET', header, 'not_before')), {scanRow})
else
  redis.call('ZADD', staged, text(at), entry)
end
return read('ok')
