-- Replaces the state of a domain if the former one is stored; '' is no state.
-- KEYS: the state, the watched domains, the counts of one or more ticks.
-- ARGV: domain id, former state, new state, TTL of the state in ms, 1 if the domain is
-- watched, TTL of the counts in ms, the most counts, then the names to count.
if (redis.call('GET', KEYS[1]) or '') ~= ARGV[2] then return 0 end
if ARGV[3] == '' then
  redis.call('DEL', KEYS[1])
else
  redis.call('SET', KEYS[1], ARGV[3], 'PX', ARGV[4])
end
if ARGV[5] == '1' and ARGV[3] ~= '' then
  redis.call('SADD', KEYS[2], ARGV[1])
else
  redis.call('SREM', KEYS[2], ARGV[1])
end
if #ARGV == 7 then return 1 end
for k = 3, #KEYS do
  for i = 8, #ARGV do
    -- The operator of a zone chooses the names with a colon: their number is bounded.
    if not string.find(ARGV[i], ':', 1, true) or redis.call('HEXISTS', KEYS[k], ARGV[i]) == 1
      or redis.call('HLEN', KEYS[k]) < tonumber(ARGV[7]) then
      redis.call('HINCRBY', KEYS[k], ARGV[i], 1)
    end
  end
  redis.call('PEXPIRE', KEYS[k], ARGV[6])
end
return 1
