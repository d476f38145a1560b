-- KEYS: the lists of active and pending tasks, and the leases, of a queue. ARGV: prefix of
-- the keys of its tasks, seconds after the end of a lease, most tasks. Puts tasks that asynq
-- has lost back into the list of pending ones: those that are active without a lease, and
-- those whose lease ended so long ago by Redis' time. It removes the keys of those without
-- a message. Returns the number of all.
local active, pending, lease, prefix, most = KEYS[1], KEYS[2], KEYS[3], ARGV[1], tonumber(ARGV[3])
local ended = redis.call('TIME')[1] - ARGV[2]
local lost = redis.call('ZRANGEBYSCORE', lease, '-inf', ended, 'LIMIT', 0, most)
if redis.call('LLEN', active) > redis.call('ZCARD', lease) - #lost then
  for _, id in ipairs(redis.call('LRANGE', active, 0, -1)) do
    if #lost >= most then break end
    if not redis.call('ZSCORE', lease, id) then lost[#lost + 1] = id end
  end
end
for _, id in ipairs(lost) do
  local key = prefix .. id
  local state, message = unpack(redis.call('HMGET', key, 'state', 'msg'))
  -- It is added before it is removed: a script that Redis ends between two writes then
  -- leaves a task twice, and not nowhere.
  local left = redis.call('LPOS', active, id)
  if message and (left or state == 'active') then
    redis.call('RPUSH', pending, id)
    redis.call('HSET', key, 'state', 'pending')
  elseif not message then
    redis.call('DEL', key)
  end
  redis.call('LREM', active, 0, id)
  redis.call('ZREM', lease, id)
end
return #lost
