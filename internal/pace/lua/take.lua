-- ARGV: operation, interval, burst, time between probes.
-- Answers what came of it, how long to wait, the blocks concerned, the reason.
local at = now()
local operations = {ARGV[1], '*'}
local r = redis.call('HMGET', pace, 'tat', 'paused_until', 'blocked:' .. ARGV[1], 'blocked:*')

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
if blocked_for > 0 then return {'blocked', blocked_for, blocked_by, why} end

local paused = tonumber(r[2] or '0') - at
if paused > 0 then return {'paused', paused} end

local tat, wait = gcra_take(tonumber(ARGV[2]), tonumber(ARGV[3]), at, tonumber(r[1] or '0'))
if wait > 0 then return {'wait', wait} end
redis.call('HSET', pace, 'tat', text(tat))
count_use(at, 1)

-- Whoever gets a permit past a block whose probe is due is the probe.
local probed = {}
for i, probe in ipairs(probes) do
  redis.call('HSET', pace, 'blocked:' .. probe[1], text(at + ARGV[4]) .. ':' .. probe[2])
  probed[i] = probe[1]
end
return {'taken', 0, table.concat(probed, ' ')}
