-- ARGV: when the row shall be due at the latest in ms (0: now), row. Makes a row due by then that waits
-- after an execution, unless it has an intent: that waits for its request. If the row is in progress, the
-- time is stored until the execution ends: it may have checked before this call. One whose last
-- attempt failed, or has died with its worker, waits out its backoff: each request would use up an
-- attempt. Answers with the status of the row.
if not control() then return {'missing'} end
local row = ARGV[2]
local by = math.max(tonumber(ARGV[1]), t)
local status = 'superseded'
local v = read(row)
local failing = v.attempts > 0 or v.died >= suspected_from
allowWrites()

-- A row that waits.
for _, set in ipairs({check, ready}) do
  local due = tonumber(redis.call('ZSCORE', set, row) or '')
  if due and failing then
    status = 'failing'
  elseif due and due <= t then
    earliest, status = due, 'due'
  elseif due then
    if due > by then redis.call('ZADD', set, text(by), row) end
    earliest, status = math.min(due, by), 'written'
  end
end

-- A row that is released or in progress.
local execution = redis.call('HGET', executions, row)
if execution and not begun(execution) then
  status = 'due'
elseif execution and not intended(row) then
  local former = tonumber(redis.call('HGET', executions, dueBy(row)) or '')
  redis.call('HSET', executions, dueBy(row), text(math.min(by, former or by)))
  status = 'written'
end
if redis.call('GETBIT', settled, row) == 1 then status = 'settled' end
return receipt({status})
