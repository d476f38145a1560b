-- ARGV: outcome, result, rows. Settles rows that are neither in progress nor have an
-- intent. Answers with the statuses of the rows.
if not control() then return {'missing'} end
local all = tonumber(redis.call('HGET', head, 'rows'))

local function dismiss(row)
  if tonumber(row) >= all then return 'superseded' end
  if redis.call('GETBIT', settled, row) == 1 then return 'settled' end
  local execution = redis.call('HGET', executions, row)
  if begun(execution) or intended(row) then return 'superseded' end
  if execution then free(row, execution) end
  for _, set in ipairs({first, check, ready}) do redis.call('ZREM', set, row) end
  settle(row, ARGV[1], ARGV[2])
  return 'written'
end

allowWrites()
return receipt(each(3, dismiss))
