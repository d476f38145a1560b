-- KEYS[2] is the sorted set of the tenant's workers. ARGV[1] is of a request: see argument in
-- limiter.go.
-- Answers what came of it, how long to wait, the blocks concerned or the paused operation, the
-- reason or the bucket that is waited for, or the time of the trial after a pause that the permit is for,
-- and how many workers there are, 0 where that was not counted.
-- Stop, blocks and pauses are read and answered before anything is written: a Redis that
-- refuses writes still applies them.
local ask, at = cjson.decode(ARGV[1]), now()
local pause_field = 'paused:' .. ask.operation
local r = read({'stopped', 'paused_until', pause_field, 'blocked:' .. ask.operation,
  'blocked_since:' .. ask.operation, 'blocked:*', 'blocked_since:*', 'tried', 'tried:' .. ask.operation}, ask.buckets)
if ask.writes and r[1] then return {'stopped', 0, '', r[1], 0} end

local probes, blocked_for, blocked_by, why = {}, 0, '', ''
for i, operation in ipairs({ask.operation, '*'}) do
  local probe_at, reason, every = read_block(operation, at, r[2 + 2 * i], r[3 + 2 * i])
  if probe_at then
    if probe_at - at > blocked_for then
      blocked_for, blocked_by, why = probe_at - at, operation, reason
    end
    probes[#probes + 1] = {operation, at + every, reason}
  end
end
if blocked_for > 0 and not ask.again then return {'blocked', blocked_for, blocked_by, why, 0} end

local own, api = ask.buckets[1], ask.buckets[2]
local paused_until, operation_until = read_pause(at, 'paused_until', r[2]), read_pause(at, pause_field, r[3])
if ask.paused > 0 and at + ask.paused > paused_until then
  paused_until = at + ask.paused
  read_bucket(own, paused_until, r[10], r[11])
  drain(own, paused_until)
  redis.call('HSET', pace, 'paused_until', text(paused_until))
end
if paused_until > at then return {'paused', paused_until - at, '', '', 0} end
if operation_until > at then return {'paused', operation_until - at, ask.operation, '', 0} end

-- After a pause one request tries whether the API accepts any. The others wait for its answer, which ends the
-- pause (accepted.lua) or begins another one (pause.lua). If there is none, the next request tries.
local trial = false
for i, of in ipairs({'', ask.operation}) do
  local next = next_trial(at, r[1 + i], r[7 + i])
  if next and next > at then return {'paused', math.min(next - at, answer_poll), of, '', 0} end
  trial = trial or next
end

for i, bucket in ipairs(ask.buckets) do read_bucket(bucket, at, r[8 + 2 * i], r[9 + 2 * i]) end
-- A worker is counted for counted_for after its last permit, longer than it waits for the API's
-- answer. One that was counted while the clock was ahead is counted again.
local counted = redis.call('ZSCORE', KEYS[2], ask.worker)
if not counted or math.abs(at - counted) >= recount then
  redis.call('ZADD', KEYS[2], text(at), ask.worker)
  redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', text(at - counted_for))
  redis.call('ZREMRANGEBYSCORE', KEYS[2], '(' .. text(at), '+inf')
  redis.call('PEXPIRE', KEYS[2], text(counted_for / 1000))
end
local workers = redis.call('ZCARD', KEYS[2])
lower(api, ask.missing, at)
if ask.empty or r[3] then drain(own, at) end -- no burst follows a pause

local wait, of = 0, ''
for _, bucket in ipairs(ask.buckets) do
  local tat, missing = gcra_take(bucket.interval, bucket.burst, at, bucket.tat)
  bucket.tat = tat
  if missing > wait then wait, of = missing, bucket.field end
end
if wait > 0 then return {'wait', wait, '', of, workers} end
for _, bucket in ipairs(ask.buckets) do store_bucket(bucket) end
count_use(at)
-- A pause that is over must not come back if the clock does: it ended at 0.
if trial then
  renew_blocks(at)
  if r[2] then redis.call('HSET', pace, 'paused_until', '0', 'tried', text(at)) end
  if r[3] then redis.call('HSET', pace, pause_field, '0', 'tried:' .. ask.operation, text(at)) end
end

-- Whoever gets a permit past a block whose probe is due is the probe.
local probed = {}
for i, probe in ipairs(probes) do
  redis.call('HSET', pace, 'blocked:' .. probe[1], text(probe[2]) .. ':' .. probe[3])
  probed[i] = probe[1]
end
return {'taken', 0, table.concat(probed, ' '), trial and text(at) or '', workers}
