-- ARGV: the most rows, dead sessions. Makes due rows of executions that belong to these,
-- and counts an attempt for each, since the execution wrote nothing. Answers {'ok',
-- closed, earliest, number of rows}.
local h = redis.call('HMGET', head, 'v', 'flags')
if not h[1] then return {'missing'} end
local dead, t, n, most = {}, now(), 0, tonumber(ARGV[1])
for i = 2, #ARGV do dead[ARGV[i]] = true end
allowWrites()
for _, row in ipairs(redis.call('ZRANGE', running, 0, -1)) do
  local execution = redis.call('HGET', executions, row)
  if n < most and dead[string.match(execution, ',(.*)$')] then
    local at = tonumber(redis.call('ZSCORE', running, row))
    reopen(row, execution, h[2], t, math.min(at, t), 1)
    n = n + 1
  end
end
return {'ok', closed(), earliest(t), n}
