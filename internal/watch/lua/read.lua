-- KEYS: domain states. ARGV: bytes. Returns the values of the first keys, false for a key
-- that does not exist, until they have so many bytes together.
local values, bytes, most = {}, 0, tonumber(ARGV[1])
for i, key in ipairs(KEYS) do
  if bytes >= most then break end
  local value = redis.call('GET', key)
  values[i] = value
  if value then bytes = bytes + #value end
end
return values
