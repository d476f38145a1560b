-- ARGV: retention, next look in ms or 0, reason, then the rows.
-- All is looked at before anything is written: a call that is refused changes nothing.
local r = redis.call('HMGET', run, 'sealed', 'total')
if not r[1] then return {'missing'} end
if r[1] == '1' then
  local total = tonumber(r[2])
  for i = 4, #ARGV do
    if tonumber(ARGV[i]) >= total then return {'mismatch', 'item', ARGV[i]} end
  end
end
for i = 4, #ARGV do
  if redis.call('GETBIT', settled, ARGV[i]) == 0 then
    redis.call('HSET', notes, ARGV[i], ARGV[2] .. ':' .. ARGV[3])
  end
end
return {'ok'}
