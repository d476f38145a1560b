-- Begins every script of a segment. KEYS are those of segmentKeys. scripts.go puts
-- release_ms, execution_ms, wait_ms, inspect_ms and value_rows before this text.
local head, chunks, check, ready, values = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local released, running, executions = KEYS[6], KEYS[7], KEYS[8]
local settled, cancelled, results, intents, sessions = KEYS[9], KEYS[10], KEYS[11], KEYS[12], KEYS[13]
local scratch, mask = KEYS[14], KEYS[15] -- exist only while a script runs

-- allowWrites lets the writes of this script pass at maxmemory: there Redis refuses a
-- script's first write if it may need memory, and no later one. DEL never needs any.
local function allowWrites() redis.call('DEL', scratch, mask) end

-- An execution is stored as r<token> once its row is released, and as
-- b<nonce>,<session> once it has begun.
local function begun(execution) return string.sub(execution, 1, 1) == 'b' end

local function owned(execution, nonce)
  return execution and string.sub(execution, 1, #nonce + 2) == 'b' .. nonce .. ','
end

-- The values of value_rows rows are stored as one, each as <row>:<size>:<value>: a hash
-- entry for each row would take 35 bytes more. find returns where the row's begins and
-- ends in that, and the value; nothing if there is none.
local function find(group, row)
  local at = 1
  while at <= #group do
    local name, size, start = string.match(group, '^(%d+):(%d+):()', at)
    local past = start + tonumber(size)
    if name == row then return at, past - 1, string.sub(group, start, past - 1) end
    at = past
  end
end

local function groupOf(row) return text(math.floor(tonumber(row) / value_rows)) end

-- load returns the value that is stored with a row, or false.
local function load(row)
  local _, _, value = find(redis.call('HGET', values, groupOf(row)) or '', row)
  return value or false
end

-- store replaces the value of a row; with '' it removes it.
local function store(row, value)
  local field = groupOf(row)
  local group = redis.call('HGET', values, field) or ''
  local start, past = find(group, row)
  if start then group = string.sub(group, 1, start - 1) .. string.sub(group, past + 1) end
  if value ~= '' then group = group .. row .. ':' .. #value .. ':' .. value end
  if group ~= '' then
    redis.call('HSET', values, field, group)
  elseif start then
    redis.call('HDEL', values, field)
  end
end

-- split returns the stage, the attempts, the first begin in ms (0: none) and the memo of
-- the value that is stored with a row, which is false where none is.
local function split(value)
  if not value then return 'c', 0, 0, '' end
  local past = string.find(value, ';', 1, true)
  local stage, attempts, first = string.match(string.sub(value, 1, past), '^(%a)(%d+),(%d+);$')
  return stage, tonumber(attempts), tonumber(first), string.sub(value, past + 1)
end

local function join(stage, attempts, first, memo)
  return stage .. text(attempts) .. ',' .. text(first) .. ';' .. memo
end

-- place makes the row wait until due.
local function place(row, stage, due)
  redis.call('ZADD', stage == 'r' and ready or check, text(due), row)
end

-- free ends a row's release or execution.
local function free(row, execution)
  redis.call('HDEL', executions, row)
  if not begun(execution) then
    redis.call('ZREM', released, row)
    return
  end
  redis.call('ZREM', running, row)
  local session = string.match(execution, ',(.*)$')
  if redis.call('HINCRBY', sessions, session, -1) <= 0 then redis.call('HDEL', sessions, session) end
end

-- settle settles an open row that is neither released, in progress nor waiting any more.
-- Nothing is
-- stored of a row that simply succeeded, or that was simply cancelled, but a bit.
local function settle(row, outcome, result)
  redis.call('SETBIT', settled, row, 1)
  redis.call('HINCRBY', head, 'settled', 1)
  redis.call('HINCRBY', head, 'n:' .. outcome, 1)
  if outcome == 'cancelled' then redis.call('SETBIT', cancelled, row, 1) end
  if result ~= '' or outcome ~= 'done' and outcome ~= 'cancelled' then
    redis.call('HSET', results, row, outcome .. ':' .. result)
  end
  store(row, '')
  redis.call('HDEL', intents, row)
end

-- reopen ends a release, or an execution that began at that time, counts attempts for the
-- latter, and makes the row due. In a cancelled run only a row with an intent stays open.
local function reopen(row, execution, flags, due, at, attempts)
  free(row, execution)
  if has(flags, 'c') and redis.call('HEXISTS', intents, row) == 0 then
    settle(row, 'cancelled', '')
    return
  end
  local stage, counted, first, memo = split(load(row))
  if begun(execution) then
    if first == 0 then first = at end
    store(row, join(stage, counted + attempts, first, memo))
  end
  place(row, stage, due)
end

-- closed returns 1 if every row is settled, else 0.
local function closed()
  local h = redis.call('HMGET', head, 'rows', 'settled')
  return tonumber(h[1]) == tonumber(h[2] or '0') and 1 or 0
end

-- stopped reports whether only rows with an intent may begin for now.
local function stopped(flags, before, t)
  return has(flags, 'p') or has(flags, 'h') or has(flags, 'i') or tonumber(before or '0') > t
end

-- allowed returns 'admitted' if the execution with this nonce may make a request for the
-- row, else the reason. A request that may be under way already may be finished.
local function allowed(row, nonce, flags, before, t)
  if redis.call('GETBIT', settled, row) == 1 then return 'settled' end
  if not owned(redis.call('HGET', executions, row), nonce) then return 'superseded' end
  if redis.call('HEXISTS', intents, row) == 1 then return 'admitted' end
  if has(flags, 'c') then return 'cancelled' end
  if stopped(flags, before, t) then return 'stopped' end
  return 'admitted'
end

-- score returns the score at a place of a sorted set, or nil: 0 is the lowest, -1 the
-- highest.
local function score(set, place)
  local entry = redis.call('ZRANGE', set, place, place, 'WITHSCORES')
  return tonumber(entry[2])
end

-- earliest returns the time in ms at which the segment is to be inspected next: 0 for
-- now, -1 if nothing becomes due by itself. A segment with rows in progress is inspected
-- every five seconds, since their session may have died.
local function earliest(t)
  local h = redis.call('HMGET', head, 'rows', 'next', 'flags', 'not_before', 'v')
  if not h[5] then return -1 end
  local stop = stopped(h[3], h[4], t)
  if not stop and tonumber(h[2]) < tonumber(h[1]) then return 0 end
  local due = -1
  local function earlier(at)
    if due < 0 or at < due then due = at end
  end
  local function inspect(set, after, limit)
    local lowest = score(set, 0)
    if not lowest then return end
    if score(set, -1) > t + limit then return earlier(0) end
    earlier(lowest + after)
  end
  inspect(released, release_ms, release_ms)
  inspect(running, execution_ms, execution_ms)
  if score(running, 0) then earlier(t + inspect_ms) end
  if not stop or redis.call('EXISTS', intents) == 1 then
    inspect(check, 0, wait_ms)
    inspect(ready, 0, wait_ms)
  end
  if tonumber(h[4]) > t then earlier(tonumber(h[4])) end
  return due
end
