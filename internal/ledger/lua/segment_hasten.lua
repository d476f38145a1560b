-- ARGV: row. Makes a row due that waits after an execution, unless it has an intent: that waits for
-- its request. One whose last attempt failed, or has died with its worker, waits out its backoff: each
-- request would use up an attempt. Answers with the status of the row.
if not control() then return {'missing'} end
local row, status = ARGV[1], 'superseded'
local v = read(row)
local failing = v.attempts > 0 or v.died >= suspected_from
allowWrites()
for _, set in ipairs({check, ready}) do
  local at = tonumber(redis.call('ZSCORE', set, row) or '')
  if at and failing then
    status = 'failing'
  elseif at then
    if at > t then redis.call('ZADD', set, text(t), row) end
    earliest, status = math.min(at, t), 'written'
  end
end
if redis.call('GETBIT', settled, row) == 1 then status = 'settled' end
return receipt({status})
