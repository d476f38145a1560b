-- ARGV: nonce, rows. Answers as segment_settle.lua does, whether a request may be made
-- for each row. Writes nothing.
local h = redis.call('HMGET', head, 'v', 'flags', 'not_before')
if not h[1] then return {'missing'} end
local t, statuses = now(), {}
for i = 2, #ARGV do statuses[#statuses + 1] = allowed(ARGV[i], ARGV[1], h[2], h[3], t) end
return {'ok', closed(), earliest(t), statuses}
