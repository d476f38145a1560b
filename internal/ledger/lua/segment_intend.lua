-- ARGV: nonce, intent, rows. Stores the intent of a request for each row, with the time.
-- A row that has none yet gets none while its run is stopped or after it was cancelled.
-- An empty intent takes it away. Answers as segment_settle.lua does.
local h = redis.call('HMGET', head, 'v', 'flags', 'not_before')
if not h[1] then return {'missing'} end
local nonce, intent, t = ARGV[1], ARGV[2], now()
local stop, cancel = stopped(h[2], h[3], t), has(h[2], 'c')

local function intend(row)
  if redis.call('GETBIT', settled, row) == 1 then return 'settled' end
  if not owned(redis.call('HGET', executions, row), nonce) then return 'superseded' end
  if intent == '' then
    redis.call('HDEL', intents, row)
    return 'written'
  end
  if redis.call('HEXISTS', intents, row) == 0 then
    if cancel then return 'cancelled' end
    if stop then return 'stopped' end
  end
  redis.call('HSET', intents, row, text(t) .. ':' .. intent)
  return 'written'
end

local statuses = {}
for i = 3, #ARGV do statuses[#statuses + 1] = intend(ARGV[i]) end
return {'ok', closed(), earliest(t), statuses}
