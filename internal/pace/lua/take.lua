-- KEYS[2] is the sorted set of the tenant's workers.
-- ARGV: operation, interval, burst, time between probes; interval and burst of the
-- share that a sweep is held to, or 0 and 0; interval and burst of the API's bucket;
-- by how much that was last seen to be short of full, or -1; 1 if the tenant's
-- bucket is to be emptied first; who asks, or '' where that is known, and how long
-- a worker is counted; 'fast' for a request of a small run, 'more' where others of
-- those wait behind it, 'held' for one that waits for them, else ''; how many of
-- them may go in a row while others wait; how long the tenant is to be paused, as
-- who asks was told while Redis could not be, or 0.
-- Answers what came of it, how long to wait, the blocks concerned, the reason or
-- what the wait is for, and how many workers there are, 0 where that was not asked.
local at = now()
local operations = {ARGV[1], '*'}
local r = redis.call('HMGET', pace, 'tat', 'paused_until', 'blocked:' .. ARGV[1], 'blocked:*', 'sweep_tat', 'api_tat')
local tat, sweep_tat, api_tat = tonumber(r[1] or '0'), tonumber(r[5] or '0'), tonumber(r[6] or '0')

local workers = 0
if ARGV[11] ~= '' then
  redis.call('ZADD', KEYS[2], at, ARGV[11])
  redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', text(at - ARGV[12]))
  redis.call('PEXPIRE', KEYS[2], math.ceil(ARGV[12] / 1000))
  workers = redis.call('ZCARD', KEYS[2])
end

-- What the API says of its bucket only ever lowers what is believed of it: that
-- fills by itself at the known rate.
local missing = tonumber(ARGV[9])
if missing >= 0 and at + missing > api_tat then
  api_tat = at + missing
  redis.call('HSET', pace, 'api_tat', text(api_tat))
end
if ARGV[10] == '1' then
  tat = gcra_drain(tonumber(ARGV[2]), tonumber(ARGV[3]), at, tat)
  redis.call('HSET', pace, 'tat', text(tat))
end
local paused_until = tonumber(r[2] or '0')
local due = at + ARGV[15]
if due > at and due > paused_until then
  paused_until = due
  tat = gcra_drain(tonumber(ARGV[2]), tonumber(ARGV[3]), due, tat)
  redis.call('HSET', pace, 'paused_until', text(due), 'tat', text(tat))
end

local probes, blocked_for, blocked_by, why = {}, 0, '', ''
for i, operation in ipairs(operations) do
  local value = r[2 + i]
  if value then
    local probe_at, reason = read_block(value)
    if probe_at - at > blocked_for then
      blocked_for, blocked_by, why = probe_at - at, operation, reason
    end
    probes[#probes + 1] = {operation, reason}
  end
end
if blocked_for > 0 then return {'blocked', blocked_for, blocked_by, why, workers} end

local paused = paused_until - at
if paused > 0 then return {'paused', paused, '', '', workers} end

local wait, share_wait, api_wait = 0, 0, 0
local is_sweep = tonumber(ARGV[6]) > 0
tat, wait = gcra_take(tonumber(ARGV[2]), tonumber(ARGV[3]), at, tat)
api_tat, api_wait = gcra_take(tonumber(ARGV[7]), tonumber(ARGV[8]), at, api_tat)
if is_sweep then
  sweep_tat, share_wait = gcra_take(tonumber(ARGV[5]), tonumber(ARGV[6]), at, sweep_tat)
end
if share_wait > math.max(wait, api_wait) then return {'wait', share_wait, '', 'share', workers} end
local fast = redis.call('HMGET', pace, 'fast_until', 'fast_run')
local fast_for, fast_run = tonumber(fast[1] or '0') - at, tonumber(fast[2] or '0')
local is_fast = ARGV[13] == 'fast' or ARGV[13] == 'more'
if ARGV[13] == 'held' and fast_for > math.max(wait, api_wait) and fast_run < tonumber(ARGV[14]) then
  return {'wait', fast_for, '', 'fast', workers}
end
if math.max(wait, api_wait) > 0 then
  -- Whoever was told comes a little later: round trips differ, and there is jitter.
  if is_fast then redis.call('HSET', pace, 'fast_until', text(at + math.max(wait, api_wait) + 150000)) end
  if api_wait > wait then return {'wait', api_wait, '', 'others', workers} end
  return {'wait', wait, '', 'rate', workers}
end
redis.call('HSET', pace, 'tat', text(tat), 'api_tat', text(api_tat))
if is_fast then
  redis.call('HSET', pace, 'fast_run', fast_run + 1, 'fast_until', ARGV[13] == 'more' and text(at + tonumber(ARGV[2]) + 150000) or 0)
elseif fast_run > 0 then
  redis.call('HDEL', pace, 'fast_run')
end
if is_sweep then redis.call('HSET', pace, 'sweep_tat', text(sweep_tat)) end
count_use(at, 1)

-- Whoever gets a permit past a block whose probe is due is the probe.
local probed = {}
for i, probe in ipairs(probes) do
  redis.call('HSET', pace, 'blocked:' .. probe[1], text(at + ARGV[4]) .. ':' .. probe[2])
  probed[i] = probe[1]
end
return {'taken', 0, table.concat(probed, ' '), '', workers}
