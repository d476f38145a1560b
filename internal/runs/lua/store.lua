-- ARGV: retention, first row, number of rows, SHA-256 of the chunk (32 bytes), compressed chunk.
local r = redis.call('HMGET', run, 'sealed', 'total', 'stored', 'cancelled_at')
if not r[1] then return {'missing'} end
if r[4] then return {'cancelled'} end
local past = tonumber(ARGV[2]) + tonumber(ARGV[3])
if r[1] == '1' and past > tonumber(r[2]) then
  return {'mismatch', 'total', r[2]}
end
local there = redis.call('HGET', rows, ARGV[2])
if there then
  if string.sub(there, 1, 32) ~= ARGV[4] then
    return {'mismatch', 'content', 'other rows'}
  end
  -- A producer that is run again comes to new rows later, and is no silent one.
  if r[1] ~= '1' then redis.call('HSET', run, 'stored_at', now()) end
  return {'ok'}
end
redis.call('HSET', rows, ARGV[2], ARGV[4] .. ARGV[5])
redis.call('HSET', run, 'stored', math.max(past, tonumber(r[3])), 'stored_at', now())
conclude()
return {'ok'}
