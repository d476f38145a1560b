-- Follows the names of keys in the scripts of headers and of a tenant's lists, behind clock.lua.

-- steady returns the time in ms by which runs are deleted. It advances as
-- Redis' clock does from one call of DeleteOld to the next, but not by a step back or one of
-- more than jump_ms: so neither a jump nor a downtime deletes anything, and a time that was
-- stored with it stays right.
local function steady()
  local h = redis.call('HMGET', clock, 'seen', 'steady')
  local step = t - (tonumber(h[1] or t) or t)
  if step < 0 or step > jump_ms then step = 0 end
  return (tonumber(h[2] or t) or t) + step
end

-- advance stores that time.
local function advance(at) redis.call('HSET', clock, 'seen', text(t), 'steady', text(at)) end
