-- Answers the time, all that is stored, and the blocks: of each the operation, when its next
-- probe is due, and the reason.
local at, fields, blocks = now(), redis.call('HGETALL', pace), {}
for i = 1, #fields, 2 do
  local operation = string.match(fields[i], '^blocked:(.*)$')
  if operation then
    local since = redis.call('HGET', pace, 'blocked_since:' .. operation)
    local probe_at, reason = read_block(operation, at, fields[i + 1], since)
    if probe_at then blocks[#blocks + 1] = {operation, probe_at, reason} end
  end
end
return {at, fields, blocks}
