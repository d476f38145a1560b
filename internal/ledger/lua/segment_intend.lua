-- ARGV: nonce, intent, rows. Stores the intent of a request for each row, with the time.
-- An empty intent removes it. Answers with the statuses of the rows.
local h = redis.call('HMGET', head, 'v', 'flags', 'not_before')
if not h[1] then return {'missing'} end
local nonce, intent, t = ARGV[1], ARGV[2], now()

local function intend(row)
  local status = allowed(row, nonce, h[2], h[3], t)
  if intent == '' and (status == 'stopped' or status == 'cancelled') then return 'written' end -- it has none
  if status ~= 'admitted' then return status end
  if intent == '' then
    redis.call('HDEL', intents, row)
  else
    redis.call('HSET', intents, row, text(t) .. ':' .. intent)
  end
  return 'written'
end

local statuses = {}
for i, row in ipairs(rest(3)) do statuses[i] = intend(row) end
return report(t, statuses)
