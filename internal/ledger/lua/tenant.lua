-- Begins every script of a tenant's lists. KEYS are those of tenantKeys. scripts.go puts
-- jump_ms and at_once before this text.
local runs, open, ended, trash, due, singles, clock, scratch = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8]

-- allowWrites lets the writes of this script pass at maxmemory, as in header.lua.
local function allowWrites() redis.call('DEL', scratch) end

-- steady returns the time in ms by which runs are deleted, and Redis' time. It advances as
-- Redis' clock does from sweep to sweep, but not by a step back or one of more than jump_ms:
-- so neither a jump nor a downtime deletes anything, and a time that was stored with it
-- stays right.
local function steady()
  local t = now()
  local h = redis.call('HMGET', clock, 'seen', 'steady')
  local step = t - (tonumber(h[1] or t) or t)
  if step < 0 or step > jump_ms then step = 0 end
  return (tonumber(h[2] or t) or t) + step, t
end

-- advance stores that time.
local function advance(at, t) redis.call('HSET', clock, 'seen', text(t), 'steady', text(at)) end

-- discarded reports whether a run is in the trash. It is never listed again.
local function discarded(run) return redis.call('HEXISTS', trash, run) == 1 end
