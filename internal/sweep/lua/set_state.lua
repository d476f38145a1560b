-- Replaces a state if the former one is stored; '' is no state.
-- KEYS: the state. ARGV: the former state, the new one.
if (redis.call('GET', KEYS[1]) or '') ~= ARGV[1] then return 0 end
if ARGV[2] == '' then
  redis.call('DEL', KEYS[1])
else
  redis.call('SET', KEYS[1], ARGV[2])
end
return 1
