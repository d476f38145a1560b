-- Begins every script. KEYS[1] is the tenant's hash. Times are whole microseconds
-- of Redis's clock; they have 16 digits, of which Lua's own conversion would keep 14.
local pace = KEYS[1]
local function now()
  local t = redis.call('TIME')
  return t[1] * 1000000 + t[2]
end
local function text(n) return string.format('%.0f', n) end

-- A write that needs no memory lets the writes after it pass at maxmemory. A user who may not
-- run it may still run those.
local function allow_writes() redis.pcall('HDEL', pace, '') end

-- A block is stored as <time of its next probe>:<reason>, and its beginning in a field of its
-- own. It is probed first after first_probe, and then at intervals as long as it has lasted, at
-- most longest_probe. One that nobody probes within unprobed_for of the time has expired: no row
-- needs the operation any more. That time begins when probes may be sent: after a pause, and after
-- a stop.

-- After a pause one request tries whether the API accepts any, and no other one is sent for trial_for unless it
-- is answered. Requests that wait for its answer ask for it each answer_poll.

-- Returns the field with the time of the first of the 429s that have led to the pause of a field.
local function refused_since(field) return 'refused_since' .. (string.match(field, '^paused(:.*)$') or '') end

-- Returns when the next request may try, given the end of a pause and when the last one did; nil: there is no
-- pause that is over.
local function next_trial(at, ended, tried)
  if not ended or tonumber(ended) > at then return nil end
  local since = at - tonumber(tried or '0')
  return since >= 0 and since < trial_for and at - since + trial_for or at
end

-- Returns when the next probe of an operation's block is due, the reason, and the interval to the one
-- after it; nil: there is no block, or it has expired. A probe that is further ahead than any was set
-- while the clock was, and is due.
local function read_block(operation, at, value, since)
  if not value then return nil end
  local due, reason = string.match(value, '^(%d+):(.*)$')
  local every = math.min(math.max(at - (since or at), first_probe), longest_probe)
  local probe_at = tonumber(due)
  if probe_at > at + longest_probe then probe_at = at end
  if at > probe_at + unprobed_for then
    local r = redis.call('HMGET', pace, 'stopped', 'paused_until', 'paused:' .. operation)
    local from = math.max(tonumber(r[2] or '0'), tonumber(r[3] or '0'))
    if not r[1] and at > from + unprobed_for then return nil end
  end
  return probe_at, reason, every
end

-- Makes probes of blocks due now: with early all of them, without it those that became due while a stop
-- or pause held them. It is called before the stop or pause is removed. Answers whether there are blocks.
local function renew_blocks(at, early)
  local there = false
  for _, field in ipairs(redis.call('HKEYS', pace)) do
    local operation = string.match(field, '^blocked:(.*)$')
    if operation then
      local r = redis.call('HMGET', pace, field, 'blocked_since:' .. operation)
      local probe_at, reason = read_block(operation, at, r[1], r[2])
      if probe_at and (early or probe_at < at) then redis.call('HSET', pace, field, text(at) .. ':' .. reason) end
      there = there or probe_at
    end
  end
  return there
end

-- Permits given are counted in slots, each stored as
-- <number of the slot since 1970>:<permits>.
local function count_use(at)
  local slot = math.floor(at / slot_length)
  local field = 'used:' .. (slot % slots)
  local used = 0
  local there = redis.call('HGET', pace, field)
  if there and string.match(there, '^%d+') == text(slot) then
    used = tonumber(string.match(there, ':(%d+)$'))
  end
  redis.call('HSET', pace, field, text(slot) .. ':' .. text(used + 1))
end
