-- ARGV: place from which on rows in progress are read, the most rows to read, dead
-- sessions. Makes due rows of executions that belong to these, and counts an attempt for
-- each, since the execution wrote nothing. Answers with {number of rows, place of the
-- next row or -1}.
local h = redis.call('HMGET', head, 'v', 'flags')
if not h[1] then return {'missing'} end
local from, most, dead, t, n = tonumber(ARGV[1]), tonumber(ARGV[2]), {}, now(), 0
for i = 3, #ARGV do dead[ARGV[i]] = true end
allowWrites()
local rows = redis.call('ZRANGE', running, from, from + most - 1)
for _, row in ipairs(rows) do
  local execution = redis.call('HGET', executions, row) or ''
  if dead[string.match(execution, ',(.*)$') or ''] then
    reopen(row, execution, h[2], t, 1)
    n = n + 1
  end
end
return receipt(t, {n, #rows == most and from + most - n or -1})
