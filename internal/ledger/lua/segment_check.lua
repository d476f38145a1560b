-- ARGV: nonce, rows. Answers with the statuses of the rows: whether a request may be made
-- for each. Writes nothing.
local h = redis.call('HMGET', head, 'v', 'flags', 'not_before')
if not h[1] then return {'missing'} end
local t, statuses = now(), {}
for i, row in ipairs(rest(2)) do statuses[i] = allowed(row, ARGV[1], h[2], h[3], t) end
return report(t, statuses)
