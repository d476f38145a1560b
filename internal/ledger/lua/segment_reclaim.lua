-- ARGV: place from which on rows in progress are read, the most rows to read, a dead
-- session. Makes due rows of executions that belong to it. Answers with {number of
-- rows, place of the next row or -1}.
if not control() then return {'missing'} end
local from, most, n = tonumber(ARGV[1]), tonumber(ARGV[2]), 0

allowWrites()
local rows = redis.call('ZRANGE', running, from, from + most - 1)
for _, row in ipairs(rows) do
  local execution = redis.call('HGET', executions, row) or ''
  if string.match(execution, ',(.*)$') == ARGV[3] then
    -- Which row was the cause of a worker's death is not known, so a row is due at once until it is
    -- suspected. Then it waits, by chance (the nonce) more or less, and is executed alone: only that
    -- loses an attempt.
    reopen(row, execution, function(v)
      v.died = v.died + 1
      local more = v.died - suspected_from
      if more < 0 then return 0 end
      if more > 0 then v.attempts = v.attempts + 1 end
      local wait = math.min(2 ^ more, 1800) -- seconds
      return math.floor(wait * (500 + 5 * string.byte(execution, 2)))
    end)
    n = n + 1
  end
end
return receipt({n, #rows == most and from + most - n or -1})
