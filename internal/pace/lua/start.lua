-- Starts the tenant, and ends the pauses that the API has asked for: one request tries at once whether it accepts
-- any, and so for each block. Answers the stop that it ends, or '', 1 if it ended a pause, and 1 if an operation
-- is blocked.
local at, stored, lifted = now(), redis.call('HGET', pace, 'stopped'), 0
allow_writes()
local blocked = renew_blocks(at, true)
redis.call('HDEL', pace, 'stopped')
for _, field in ipairs(redis.call('HKEYS', pace)) do
  local paused = field == 'paused_until' and '' or string.match(field, '^paused(:.*)$')
  if paused and tonumber(redis.call('HGET', pace, field)) > at then
    redis.call('HSET', pace, field, '0')
    redis.call('HDEL', pace, 'tried' .. paused)
    lifted = 1
  end
end
return {stored or '', lifted, blocked and 1 or 0}
