-- ARGV: place from which on rows in progress are read, the most rows to read, session.
-- Answers {'ok', place of the next row or -1, {row, nonce, and so on}}, with the rows that
-- the session executes.
local from, most, session, found = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3], {}
local rows = redis.call('ZRANGE', running, from, from + most - 1)
for _, row in ipairs(rows) do
  local nonce, of = string.match(redis.call('HGET', executions, row) or '', '^b(.-),(.*)$')
  if of == session then
    found[#found + 1] = row
    found[#found + 1] = nonce
  end
end
return {'ok', #rows == most and from + most or -1, found}
