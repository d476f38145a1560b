-- ARGV: token, the most rows that were never begun, the most at stage check, the most at
-- stage ready, the most in all. Answers with {rows, rows of a chunk, chunks}: a flat list of rows and
-- their sorts ('f': never begun, 'c', 'r'), and one of chunk numbers and chunks.
local h = redis.call('HMGET', head, 'rows', 'next', 'flags', 'not_before', 'v', 'per', 'inspected')
if not h[5] then return {'missing'} end
local token, t = ARGV[1], now()
local flags, rows = h[3], tonumber(h[1])
local stop = stopped(flags, h[4], t)

-- The first write needs memory, so that at maxmemory nothing is changed.
local inspected = tonumber(h[7] or text(t))
local wrote = false
local function beginWrites()
  if not wrote then redis.call('HSET', head, 'inspected', text(t)) end
  wrote = true
end

-- lapse reopens some rows of a set of start times that are limit ms ago, or so far in the
-- future that Redis' clock must have been ahead. The latter count no attempt, and neither
-- do others if the segment was not inspected for long: Redis' clock may have jumped.
local function lapse(set, limit)
  local past = redis.call('ZRANGEBYSCORE', set, '-inf', text(t - limit), 'LIMIT', 0, 40)
  local future = redis.call('ZRANGEBYSCORE', set, '(' .. text(t + limit), '+inf', 'LIMIT', 0, 40)
  local function each(list, attempts)
    for _, row in ipairs(list) do
      beginWrites()
      reopen(row, redis.call('HGET', executions, row) or 'r', flags, t, attempts)
    end
  end
  each(past, t - inspected > away_ms and 0 or 1)
  each(future, 0)
end

lapse(released, release_ms)
lapse(running, execution_ms)
if t - inspected > away_ms / 2 and redis.call('EXISTS', running) == 1 then beginWrites() end

local list, room = {}, tonumber(ARGV[5])
local per, wanted, contents, bytes = tonumber(h[6]), {}, {}, 0

-- fits adds the chunk of a row to the answer, and reports whether the row may be released:
-- the first always, the others while the chunks are not too large.
local function fits(row)
  local number = text(math.floor(tonumber(row) / per))
  if wanted[number] then return true end
  local content = redis.call('HGET', chunks, number) or ''
  bytes = bytes + #content
  if #list > 0 and bytes > release_bytes then
    room = 0
    return false
  end
  wanted[number] = true
  contents[#contents + 1] = number
  contents[#contents + 1] = content
  return true
end

-- release releases a row and reports whether it did.
local function release(row, sort)
  if room <= 0 or not fits(row) then return false end
  beginWrites()
  list[#list + 1] = row
  list[#list + 1] = sort
  room = room - 1
  redis.call('ZADD', released, text(t), row)
  redis.call('HSET', executions, row, 'r' .. token)
  return true
end

-- releaseDue releases up to n rows of a set of waiting rows, and returns how many more may
-- be. A row due later than any may be was placed while Redis' clock was ahead.
local function releaseDue(set, sort, n)
  n = math.min(n, room)
  if n <= 0 then return 0 end
  local due = redis.call('ZRANGEBYSCORE', set, '-inf', text(t), 'LIMIT', 0, n)
  if #due < n then
    for _, row in ipairs(redis.call('ZRANGEBYSCORE', set, '(' .. text(t + ahead_ms), '+inf', 'LIMIT', 0, n - #due)) do
      due[#due + 1] = row
    end
  end
  for _, row in ipairs(due) do
    if not release(row, sort) then return 0 end
    redis.call('ZREM', set, row)
  end
  return n - #due
end

local left = releaseDue(intended_ready, 'r', tonumber(ARGV[4]))
if not stop then releaseDue(ready, 'r', left) end
left = releaseDue(intended_check, 'c', tonumber(ARGV[3]))
if not stop then
  releaseDue(check, 'c', left)
  local n, row = releaseDue(first, 'f', tonumber(ARGV[2])), tonumber(h[2])
  while n > 0 and room > 0 and row < rows do
    if redis.call('GETBIT', settled, row) == 0 then
      if not release(text(row), 'f') then break end
      n = n - 1
    end
    row = row + 1
  end
  if row > tonumber(h[2]) then
    beginWrites()
    redis.call('HSET', head, 'next', row)
  end
end

return report(t, {list, per, contents})
