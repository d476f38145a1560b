-- ARGV: nonce, stage, ms until the rows are due, attempts to add, memo, rows. Ends the
-- execution of each row and stores the memo in place of the former. Answers as
-- segment_settle.lua does.
local h = redis.call('HMGET', head, 'v', 'flags')
if not h[1] then return {'missing'} end
local nonce, stage, memo, t = ARGV[1], ARGV[2], ARGV[5], now()

local function wait(row)
  if redis.call('GETBIT', settled, row) == 1 then return 'settled' end
  local execution = redis.call('HGET', executions, row)
  if not owned(execution, nonce) then return 'superseded' end
  local _, attempts, first = split(load(row))
  if first == 0 then first = math.min(tonumber(redis.call('ZSCORE', running, row)), t) end
  free(row, execution)
  if has(h[2], 'c') and redis.call('HEXISTS', intents, row) == 0 then
    settle(row, 'cancelled', '')
    return 'cancelled'
  end
  store(row, join(stage, attempts + tonumber(ARGV[4]), first, memo))
  place(row, stage, t + tonumber(ARGV[3]))
  return 'written'
end

allowWrites()
local statuses = {}
for i = 6, #ARGV do statuses[#statuses + 1] = wait(ARGV[i]) end
return {'ok', closed(), earliest(t), statuses}
