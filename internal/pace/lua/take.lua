-- KEYS[2] is the sorted set of the tenant's workers.
-- ARGV: operation, interval, burst; interval and burst of the share that a sweep is held to,
-- or 0 and 0; interval and burst of the API's bucket; by how much that was last seen to be
-- short of full, or -1; 1 if the tenant's bucket is to be emptied first; who asks, or '' where
-- that is known, and how long a worker is counted; how long the tenant is to be paused, which
-- the worker could not store before, or 0; 1 if the request changes something; 1 if it repeats
-- a probe, which no block holds up.
-- Answers what came of it, how long to wait, the blocks concerned, the reason or what the wait
-- is for, and how many workers there are, 0 where that was not counted.
-- Stop, blocks and pause are read and answered before anything is written: a Redis that
-- refuses writes still applies them.
local at = now()
local operations = {ARGV[1], '*'}
local is_sweep = tonumber(ARGV[5]) > 0
local r = redis.call('HMGET', pace, 'tat', 'tat_set', 'api_tat', 'api_tat_set', 'sweep_tat', 'sweep_tat_set',
  'paused_until', 'paused_until_set', 'stopped', 'blocked:' .. ARGV[1], 'blocked_since:' .. ARGV[1], 'blocked:*', 'blocked_since:*')
if ARGV[13] == '1' and r[9] then return {'stopped', 0, '', r[9], 0} end

local probes, blocked_for, blocked_by, why = {}, 0, '', ''
for i, operation in ipairs(operations) do
  local value = r[8 + 2 * i]
  local probe_at, reason, every = read_block(at, value, r[9 + 2 * i])
  if probe_at then
    local corrected = text(probe_at) .. ':' .. reason
    if corrected ~= value then redis.call('HSET', pace, 'blocked:' .. operation, corrected) end
    if probe_at - at > blocked_for then
      blocked_for, blocked_by, why = probe_at - at, operation, reason
    end
    probes[#probes + 1] = {operation, at + every, reason}
  end
end
if blocked_for > 0 and ARGV[14] ~= '1' then return {'blocked', blocked_for, blocked_by, why, 0} end

local paused_until = read_pause(at, r[7], r[8])
local tat = read_tat('tat', ARGV[2], ARGV[3], math.max(at, paused_until), r[1], r[2])
local due = at + ARGV[12]
if due > math.max(at, paused_until) then
  paused_until = due
  tat = gcra_drain(tonumber(ARGV[2]), tonumber(ARGV[3]), due, tat)
  put('tat', tat, due)
  put('paused_until', due, at)
end
if paused_until > at then return {'paused', paused_until - at, '', '', 0} end
-- A pause that is over must not come back if the clock does.
if r[7] then redis.call('HDEL', pace, 'paused_until', 'paused_until_set') end

local api_tat = read_tat('api_tat', ARGV[6], ARGV[7], at, r[3], r[4])
local sweep_tat = 0
if is_sweep then sweep_tat = read_tat('sweep_tat', ARGV[4], ARGV[5], at, r[5], r[6]) end
if ARGV[10] ~= '' then
  -- A worker that was counted while the clock was ahead is not counted for as long as that.
  for _, worker in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '(' .. text(at), '+inf')) do
    redis.call('ZADD', KEYS[2], text(at), worker)
  end
  redis.call('ZADD', KEYS[2], at, ARGV[10])
  redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', text(at - ARGV[11]))
  redis.call('PEXPIRE', KEYS[2], math.ceil(ARGV[11] / 1000))
end
local workers = redis.call('ZCARD', KEYS[2])

-- What the API says of its bucket only ever lowers what is believed of it: that
-- fills by itself at the known rate.
local missing = tonumber(ARGV[8])
if missing >= 0 and at + missing > api_tat then
  api_tat = at + missing
  put('api_tat', api_tat, at)
end
if ARGV[9] == '1' then
  tat = gcra_drain(tonumber(ARGV[2]), tonumber(ARGV[3]), at, tat)
  put('tat', tat, at)
end

local wait, share_wait, api_wait = 0, 0, 0
tat, wait = gcra_take(tonumber(ARGV[2]), tonumber(ARGV[3]), at, tat)
api_tat, api_wait = gcra_take(tonumber(ARGV[6]), tonumber(ARGV[7]), at, api_tat)
if is_sweep then
  sweep_tat, share_wait = gcra_take(tonumber(ARGV[4]), tonumber(ARGV[5]), at, sweep_tat)
end
if share_wait > math.max(wait, api_wait) then return {'wait', share_wait, '', 'share', workers} end
if api_wait > wait then return {'wait', api_wait, '', 'others', workers} end
if wait > 0 then return {'wait', wait, '', 'rate', workers} end
put('tat', tat, at)
put('api_tat', api_tat, at)
if is_sweep then put('sweep_tat', sweep_tat, at) end
count_use(at, 1)

-- Whoever gets a permit past a block whose probe is due is the probe.
local probed = {}
for i, probe in ipairs(probes) do
  redis.call('HSET', pace, 'blocked:' .. probe[1], text(probe[2]) .. ':' .. probe[3])
  probed[i] = probe[1]
end
return {'taken', 0, table.concat(probed, ' '), '', workers}
