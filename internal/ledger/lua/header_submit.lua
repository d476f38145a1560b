-- ARGV: entry, batch wait in ms or 0, fields of the header, alternating with their values. Stores a
-- single row: a run with its only row, committed. Answers {'ok', header}, which is that of an
-- earlier run if there is one.
if redis.call('EXISTS', header) == 1 then return read('ok') end
local at, wait = steady(), tonumber(ARGV[2])
redis.call('HSET', header, 'inc', incarnation, 'created_at', text(t), 'committed_at', text(t),
  'staged', '1', 'segments', '1', 'next', '0', 'settled', '0', unpack(ARGV, 3))
if redis.call('EXISTS', clock) == 0 then advance(at) end
redis.call('ZADD', singles, text(t), entry)
local first = wait > 0 and t - t % wait + wait or t
soon(math.max(first, tonumber(redis.call('HGET', header, 'not_before'))), segments(0, 1))
return read('ok')
