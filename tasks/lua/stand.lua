-- KEYS: hashes of tasks. Answers a string of 0 and 1: which of them are to be
-- carried out.
local bits = {}
for i = 1, #KEYS do
  local state = redis.call('HGET', KEYS[i], 'state')
  local stands = state and state ~= 'completed' and state ~= 'archived'
    and redis.call('HEXISTS', KEYS[i], 'msg') == 1
  bits[i] = stands and '1' or '0'
end
return table.concat(bits)
