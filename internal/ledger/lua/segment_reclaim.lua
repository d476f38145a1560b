-- ARGV: place from which on rows in progress are read, the most rows to read, a dead
-- session. Makes due rows of executions that belong to it. Answers with {number of
-- rows, place of the next row or -1}.
if not control() then return {'missing'} end
local from, most, n = tonumber(ARGV[1]), tonumber(ARGV[2]), 0

-- die ends the execution of a row that died with its worker. Which row was the cause is
-- not known, so the first time the row is due at once. From the second time on it waits,
-- by chance (the nonce) more or less, and is executed alone: only that loses an attempt.
local function die(row, execution)
  if redis.call('GETBIT', settled, row) == 1 then return free(row, execution) end -- by a cancel
  local v = read(row)
  if v.first == 0 then v.first = since(row) end
  v.died = v.died + 1
  if v.died > 2 then v.attempts = v.attempts + 1 end
  local wait = v.died > 1 and math.min(2 ^ (v.died - 2), 1800) or 0 -- seconds
  leave(row, execution, v, t + math.floor(wait * (500 + 5 * string.byte(execution, 2))))
end

allowWrites()
local rows = redis.call('ZRANGE', running, from, from + most - 1)
for _, row in ipairs(rows) do
  local execution = redis.call('HGET', executions, row) or ''
  if string.match(execution, ',(.*)$') == ARGV[3] then
    die(row, execution)
    n = n + 1
  end
end
return receipt({n, #rows == most and from + most - n or -1})
