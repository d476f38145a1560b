-- ARGV: retention, generation, next look in ms or 0, reason, then the rows.
-- All is looked at before anything is written: a call that is refused changes nothing.
local r = redis.call('HMGET', run, 'sealed', 'total')
if missing(ARGV[2]) then return {'missing'} end
if r[1] == '1' then
  local total = tonumber(r[2])
  for i = 5, #ARGV do
    if tonumber(ARGV[i]) >= total then return {'mismatch', 'item', ARGV[i]} end
  end
end
for i = 5, #ARGV do
  if redis.call('GETBIT', settled, ARGV[i]) == 0 then
    redis.call('HSET', notes, ARGV[i], ARGV[3] .. ':' .. ARGV[4])
  end
end
return {'ok'}
