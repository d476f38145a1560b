-- Answers the time, the end of the pause, all that is stored, and the blocks: of each the
-- operation, when its next probe is due, and the reason.
local at = now()
local r = redis.call('HMGET', pace, 'paused_until', 'paused_until_set')
local fields, blocks = redis.call('HGETALL', pace), {}
for i = 1, #fields, 2 do
  local operation = string.match(fields[i], '^blocked:(.*)$')
  if operation then
    local since = redis.call('HGET', pace, 'blocked_since:' .. operation)
    local probe_at, reason = read_block(at, fields[i + 1], since)
    if probe_at then blocks[#blocks + 1] = {operation, probe_at, reason} end
  end
end
return {at, pause_end(at, r[1], r[2]), fields, blocks}
