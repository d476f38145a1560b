-- ARGV: token, rows. Makes rows due at once that were released and not begun. Answers
-- with the statuses of the rows.
local flags, before, entry, name = control()
if not flags then return {'missing'} end
local token, t = ARGV[1], now()

local function back(row)
  if redis.call('GETBIT', settled, row) == 1 then return 'settled' end
  local execution, v = redis.call('HGET', executions, row), read(row)
  if execution ~= 'r' .. token then return v.ended == short(token) and 'ended' or 'superseded' end
  v.ended = short(token)
  return leave(row, execution, flags, v, t)
end

allowWrites()
local statuses = {}
for i, row in ipairs(rest(2)) do statuses[i] = back(row) end
return receipt(t, flags, before, entry, name, statuses)
