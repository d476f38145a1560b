-- Removes the blocks that have expired. Answers their operations.
local at, expired = now(), {}
for _, field in ipairs(redis.call('HKEYS', pace)) do
  local operation = string.match(field, '^blocked:(.*)$')
  if operation then
    local r = redis.call('HMGET', pace, field, 'blocked_since:' .. operation)
    if not read_block(operation, at, r[1], r[2]) then
      redis.call('HDEL', pace, field, 'blocked_since:' .. operation, 'blocked_fix:' .. operation)
      expired[#expired + 1] = operation
    end
  end
end
return expired
