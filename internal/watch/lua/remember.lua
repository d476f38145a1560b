-- KEYS: what is remembered of the domain, the attended domains, the tick's tally.
-- ARGV: the domain, what is known to be there ('' for nothing), what is to be there
-- ('' for nothing), how long it is kept in ms, 1 where the domain is attended, how long
-- a tally is kept in ms, how many words it has at most, then words to count.
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
for i = 8, #ARGV do
  -- Whoever delegates a zone chooses the words with a colon: only so many are counted.
  if not string.find(ARGV[i], ':', 1, true) or redis.call('HEXISTS', KEYS[3], ARGV[i]) == 1
    or redis.call('HLEN', KEYS[3]) < tonumber(ARGV[7]) then
    redis.call('HINCRBY', KEYS[3], ARGV[i], 1)
  end
end
if #ARGV > 7 then redis.call('PEXPIRE', KEYS[3], ARGV[6]) end
return 1
