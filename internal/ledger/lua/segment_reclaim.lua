-- ARGV: dead sessions. Makes due the rows of executions that belong to them, and counts
-- an attempt for each, since the execution wrote nothing. Answers {'ok', closed,
-- earliest, number of rows}.
local h = redis.call('HMGET', head, 'v', 'flags')
if not h[1] then return {'missing'} end
local dead, t, n = {}, now(), 0
for i = 1, #ARGV do dead[ARGV[i]] = true end
allowWrites()
for _, row in ipairs(redis.call('ZRANGE', running, 0, -1)) do
  local execution = redis.call('HGET', executions, row)
  if dead[string.match(execution, ',(.*)$')] then
    local at = tonumber(redis.call('ZSCORE', running, row))
    reopen(row, execution, h[2], t, math.min(at, t), 1)
    n = n + 1
  end
end
return {'ok', closed(), earliest(t), n}
