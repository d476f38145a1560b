-- ARGV: retention, total.
local r = redis.call('HMGET', run, 'sealed', 'total', 'stored')
if not r[1] then return {'missing'} end
if r[1] == '1' then
  if tonumber(r[2]) ~= tonumber(ARGV[2]) then return {'mismatch', 'total', r[2]} end
  return {'ok'}
end
local total = tonumber(ARGV[2])
if tonumber(r[3]) > total then return {'mismatch', 'total', r[3]} end

-- Was a row settled that there is not? It would stand in for one that is open.
local byte = math.floor(total / 8)
for bit = total, byte * 8 + 7 do
  if redis.call('GETBIT', settled, bit) == 1 then return {'mismatch', 'item', tostring(bit)} end
end
local beyond = redis.call('BITPOS', settled, 1, byte + 1)
if beyond >= 0 then return {'mismatch', 'item', tostring(beyond)} end

redis.call('HSET', run, 'sealed', 1, 'total', total)
conclude()
return {'ok'}
