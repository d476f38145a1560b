-- Answers {'ok', living sessions}, each as {session, description, when it was renewed}.
local list = {}
for _, session in ipairs(redis.call('ZREVRANGE', seen, 0, -1)) do
  if silence(session) <= dead_ms then
    list[#list + 1] = {session, redis.call('HGET', about, session), tonumber(redis.call('ZSCORE', seen, session))}
  end
end
return {'ok', list}
