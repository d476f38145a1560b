-- ARGV: outcome, result, rows. Settles rows that are neither in progress nor have an
-- intent. Answers with the statuses of the rows.
local flags, before, entry, name = control()
if not flags then return {'missing'} end
local all = tonumber(redis.call('HGET', head, 'rows'))

local function dismiss(row)
  if tonumber(row) >= all then return 'superseded' end
  if redis.call('GETBIT', settled, row) == 1 then return 'settled' end
  if redis.call('GETBIT', active, row) == 1 then return 'superseded' end
  local execution = redis.call('HGET', executions, row)
  if execution then free(row, execution) end
  for _, set in ipairs({first, check, ready}) do redis.call('ZREM', set, row) end
  settle(row, ARGV[1], ARGV[2])
  return 'written'
end

allowWrites()
local statuses = {}
for i, row in ipairs(rest(3)) do statuses[i] = dismiss(row) end
return receipt(now(), flags, before, entry, name, statuses)
