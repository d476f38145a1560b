-- Begins every script of the sessions.

-- silence returns for how many ms the session was not renewed while others were. Before
-- since, Redis was away or its clock was another one, so that none could be renewed.
local function silence(session)
  local at = tonumber(redis.call('ZSCORE', seen, session) or '0')
  return t - math.max(at, tonumber(redis.call('GET', since) or '0'))
end
