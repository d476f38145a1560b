-- Begins every script of a header. KEYS are those of headerKeys. ARGV[1] is the
-- incarnation.
local header, closed, sums, scratch = KEYS[1], KEYS[2], KEYS[3], KEYS[4]

-- allowWrites lets the writes of this script pass at maxmemory: there Redis refuses a
-- script's first write if it may need memory, and no later one. DEL never needs any.
local function allowWrites() redis.call('DEL', scratch) end

-- present reports whether the header is that of the caller's incarnation.
local function present() return redis.call('HGET', header, 'inc') == ARGV[1] end

-- read returns the whole header as the answer of a script.
local function read(status) return {status, redis.call('HGETALL', header)} end

-- version returns a version that is higher than the header's and than floor. It is the
-- time in microseconds, so that a Redis that has lost its last writes does not issue a
-- version twice.
local function version(floor)
  local t = redis.call('TIME')
  local own = tonumber(redis.call('HGET', header, 'v') or '0')
  return math.max(t[1] * 1000000 + t[2], own + 1, floor + 1)
end

-- conclude ends the run if no more segments are to come and every one is closed. It
-- reports whether this call did.
local function conclude()
  local h = redis.call('HMGET', header, 'segments', 'ended_at', 'sealed')
  if not h[3] or h[2] then return false end
  if redis.call('BITCOUNT', closed) < tonumber(h[1]) then return false end
  redis.call('HSET', header, 'ended_at', text(now()))
  return true
end
