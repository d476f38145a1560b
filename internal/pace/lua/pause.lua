-- ARGV[1] is of a request: see argument in limiter.go. Pauses the tenant, or the operation if it is
-- to be paused alone. Answers 1 if what was paused was not before.
local ask, at = cjson.decode(ARGV[1]), now()
allow_writes()
local own, api = ask.buckets[1], ask.buckets[2]
local field, due = 'paused:' .. ask.operation, at + ask.pause
local r = read({'paused_until', field}, ask.buckets)
local before = read_pause(at, 'paused_until', r[1])
read_bucket(own, math.max(at, before), r[3], r[4])
read_bucket(api, at, r[5], r[6])
lower(api, ask.missing, at)
if ask.alone then before = read_pause(at, field, r[2]) end
redis.call('HDEL', pace, 'tried', 'tried:' .. ask.operation) -- a trial, if it was one, is over
if not ask.alone then field = 'paused_until' end
if redis.call('HEXISTS', pace, field) == 0 then -- the first 429 since a request was accepted
  redis.call('HSET', pace, refused_since(field), text(at))
end
if due > before then
  redis.call('HSET', pace, field, text(due))
  if not ask.alone then drain(own, due) end
end
return before <= at and 1 or 0
