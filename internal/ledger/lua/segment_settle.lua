-- ARGV: nonce, outcome, result, rows. Settles rows that this nonce executes; with an
-- empty nonce, rows that are neither in progress nor have an intent. Answers {'ok',
-- closed, earliest, statuses of the rows}.
local h = redis.call('HMGET', head, 'v', 'rows')
if not h[1] then return {'missing'} end
local nonce, outcome, result = ARGV[1], ARGV[2], ARGV[3]

local function try(row)
  if tonumber(row) >= tonumber(h[2]) then return 'superseded' end
  if redis.call('GETBIT', settled, row) == 1 then return 'settled' end
  local execution = redis.call('HGET', executions, row)
  if nonce ~= '' then
    if not owned(execution, nonce) then return 'superseded' end
  elseif execution and begun(execution) or redis.call('HEXISTS', intents, row) == 1 then
    return 'superseded'
  end
  if execution then
    free(row, execution)
  else
    redis.call('ZREM', check, row)
    redis.call('ZREM', ready, row)
  end
  settle(row, outcome, result)
  return 'written'
end

allowWrites()
local statuses = {}
for i = 4, #ARGV do statuses[#statuses + 1] = try(ARGV[i]) end
return {'ok', closed(), earliest(now()), statuses}
