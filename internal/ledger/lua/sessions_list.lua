-- Answers {'ok', living sessions}, each as {session, description}.
local list = {}
for _, session in ipairs(redis.call('ZREVRANGE', seen, 0, -1)) do
  if silence(session) <= dead_ms then
    list[#list + 1] = {session, redis.call('HGET', about, session)}
  end
end
return {'ok', list}
