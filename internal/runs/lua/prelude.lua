-- Begins every script of the ledger. KEYS are always the run's, in this order.
-- ARGV[1] is the retention of ended runs in milliseconds, where the run has none of its own.
local run, settled, cancelled = KEYS[1], KEYS[2], KEYS[3]
local told, fates, notes, kept, rows = KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local scratch = KEYS[9] -- there only while a script runs
local begun, intents = KEYS[10], KEYS[11]
local cursor = KEYS[12] -- of a run whose rows a walk finds

local function now()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

-- Lets the writes of this script pass at maxmemory: there Redis refuses a script's first
-- write if that may take memory, and no later one. DEL never takes any. Only scripts that
-- settle rows, stop work or free memory call it, before their first write.
local function allowWrites()
  redis.call('DEL', scratch)
end

-- Is a row settled that a run of this many rows does not have? Its number, or nil.
local function beyond(total)
  local byte = math.floor(total / 8)
  for bit = total, byte * 8 + 7 do
    if redis.call('GETBIT', settled, bit) == 1 then return tostring(bit) end
  end
  local first = redis.call('BITPOS', settled, 1, byte + 1)
  if first >= 0 then return tostring(first) end
end

-- Reports whether a task of that generation has no run: there is none, or another run
-- has its id by now. Generation 0 is that of a caller that is no task.
local function missing(generation)
  local r = redis.call('HMGET', run, 'kind', 'first')
  local g, first = tonumber(generation), tonumber(r[2] or 0)
  return not r[1] or g ~= 0 and (g < first or g >= first + 1000000)
end

-- What stands against work of a task of that generation, '' if nothing does. In a
-- run that was cancelled nothing begins, so no generation there is too old to find
-- out what became of what had begun.
local function against(generation)
  local r = redis.call('HMGET', run, 'cancelled_at', 'paused', 'floor')
  if r[1] then return 'cancelled' end
  if r[2] == '1' then return 'paused' end
  local g = tonumber(generation)
  if g ~= 0 and g < tonumber(r[3] or 0) then return 'superseded' end
  return ''
end

-- Ends the run if it is through. Of a run that has ended every key expires, also
-- one that is written first after the end: hence this is every script's last step.
local function conclude()
  local r = redis.call('HMGET', run, 'sealed', 'total', 'settled', 'ended_at', 'keep_ms')
  local ended = r[4] and tonumber(r[4])
  if not ended then
    if r[1] ~= '1' or tonumber(r[2]) ~= tonumber(r[3]) then
      return
    end
    ended = now()
    redis.call('HSET', run, 'ended_at', ended)
  end
  for i = 1, #KEYS do
    redis.call('PEXPIREAT', KEYS[i], ended + tonumber(r[5] or ARGV[1]))
  end
end
