-- Answers the time, all that is stored, the blocks: of each the operation, when its next
-- probe is due, the reason, since when it is blocked, and what a person should do; and the pauses that are over: of each
-- the operation, and when the next request may try.
local at, fields, blocks, trials = now(), redis.call('HGETALL', pace), {}, {}
for i = 1, #fields, 2 do
  local paused = fields[i] == 'paused_until' and '' or string.match(fields[i], '^paused(:.*)$')
  if paused then
    local next = next_trial(at, fields[i + 1], redis.call('HGET', pace, 'tried' .. paused))
    if next then trials[#trials + 1] = {paused == '' and '*' or string.sub(paused, 2), next} end
  end
  local operation = string.match(fields[i], '^blocked:(.*)$')
  if operation then
    local since = redis.call('HGET', pace, 'blocked_since:' .. operation)
    local probe_at, reason = read_block(operation, at, fields[i + 1], since)
    local fix = redis.call('HGET', pace, 'blocked_fix:' .. operation)
    if probe_at then blocks[#blocks + 1] = {operation, probe_at, reason, tonumber(since or '0'), fix or ''} end
  end
end
return {at, fields, blocks, trials}
