-- ARGV: token, rows. Makes rows due at once that were released and not begun. Answers
-- with the statuses of the rows.
if not control() then return {'missing'} end
local token = ARGV[1]

local function back(row)
  if redis.call('GETBIT', settled, row) == 1 then return 'settled' end
  local execution, v = redis.call('HGET', executions, row), read(row)
  if execution ~= 'r' .. token then return v.ended == short(token) and 'ended' or 'superseded' end
  v.ended = short(token)
  return leave(row, execution, v, since(row, released))
end

allowWrites()
return receipt(each(2, back))
