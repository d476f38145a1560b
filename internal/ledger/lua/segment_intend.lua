-- ARGV: nonce, intent, rows. Stores the intent of a request for each row, with the time.
-- An empty intent removes it. Answers with the statuses of the rows.
if not control() then return {'missing'} end
local nonce, intent = ARGV[1], ARGV[2]

-- allowed returns 'admitted' if the execution with this nonce may make a request for the
-- row, else the reason. A request that may be under way already may be finished.
local function allowed(row)
  if redis.call('GETBIT', settled, row) == 1 then return 'settled' end
  if not owned(redis.call('HGET', executions, row), nonce) then return 'superseded' end
  if intended(row) then return 'admitted' end
  if has(flags, 'c') then return 'cancelled' end
  if stopped() then return 'stopped' end
  return 'admitted'
end

local function intend(row)
  local status = allowed(row)
  if intent == '' and (status == 'stopped' or status == 'cancelled') then return 'written' end -- it has none
  if status ~= 'admitted' then return status end
  if intent == '' then
    redis.call('HDEL', intents, row)
  else
    redis.call('HSET', intents, row, text(t) .. ':' .. intent)
  end
  return 'written'
end

return receipt(each(3, intend))
