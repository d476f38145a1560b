-- ARGV: 'living' or 'dead'. Answers {'ok', sessions}, each as {session, description, when it was
-- renewed}. A session is forgotten a day after its last renewal.
local list = {}
for _, session in ipairs(redis.call('ZREVRANGE', seen, 0, -1)) do
  if (silence(session) <= dead_ms) == (ARGV[1] == 'living') then
    list[#list + 1] = {session, redis.call('HGET', about, session), tonumber(redis.call('ZSCORE', seen, session))}
  end
end
return {'ok', list}
