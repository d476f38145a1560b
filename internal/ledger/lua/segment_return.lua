-- ARGV: 'r' and a token or 'b' and a nonce, ms until the rows are due, rows. Ends the
-- release or execution of each row, and changes nothing else of it. Answers as
-- segment_settle.lua does.
local h = redis.call('HMGET', head, 'v', 'flags')
if not h[1] then return {'missing'} end
local t = now()

local function back(row)
  if redis.call('GETBIT', settled, row) == 1 then return 'settled' end
  local execution = redis.call('HGET', executions, row)
  if execution ~= ARGV[1] and not owned(execution, string.sub(ARGV[1], 2)) then return 'superseded' end
  local at = tonumber(redis.call('ZSCORE', running, row) or t)
  reopen(row, execution, h[2], t + tonumber(ARGV[2]), math.min(at, t), 0)
  return 'written'
end

allowWrites()
local statuses = {}
for i = 3, #ARGV do statuses[#statuses + 1] = back(ARGV[i]) end
return {'ok', closed(), earliest(t), statuses}
