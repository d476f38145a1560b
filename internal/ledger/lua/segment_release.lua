-- ARGV: token, the most rows that were never begun, the most at stage check, the most at stage
-- ready, the most pieces of grouped rows, the most rows of a piece. Answers with {rows, rows of a chunk, chunks}: a list of
-- rows, release_rows at most, and a flat one of chunk numbers and chunks.
if not control() then return {'missing'} end
local token = ARGV[1]

-- cancelRows settles every open row that is neither in progress nor has an intent, by
-- operations on whole bitmaps. While other rows are active, what is stored of the
-- settled ones stays until the segment is closed.
local function cancelRows()
  local rows = tonumber(redis.call('HGET', head, 'rows'))
  local bits = string.rep('\255', math.floor(rows / 8))
  if rows % 8 > 0 then bits = bits .. string.char(256 - 2 ^ (8 - rows % 8)) end
  allowWrites()
  redis.call('SET', scratch, bits)
  redis.call('BITOP', 'AND', mask, settled, scratch)
  for _, row in ipairs(redis.call('ZRANGE', running, 0, -1)) do redis.call('SETBIT', mask, row, 1) end
  for _, row in ipairs(redis.call('HKEYS', intents)) do redis.call('SETBIT', mask, row, 1) end
  redis.call('BITOP', 'XOR', scratch, scratch, mask)
  local fresh = redis.call('BITCOUNT', scratch)
  redis.call('BITOP', 'OR', cancelled, cancelled, scratch)
  redis.call('BITOP', 'OR', settled, settled, scratch)
  redis.call('DEL', scratch, mask)
  redis.call('UNLINK', first, check, ready, order)
  redis.call('HSET', head, 'next', rows, 'cancelled', '1')
  if fresh > 0 then tally['cancelled'] = fresh end
  if redis.call('EXISTS', running, intents) == 0 then clear() end
end

if has(flags, 'c') and redis.call('HEXISTS', head, 'cancelled') == 0 then cancelRows() end
count()

local h = redis.call('HMGET', head, 'rows', 'next', 'per', 'inspected')
local rows = tonumber(h[1])
local stop = stopped()

-- The first write needs memory, so that at maxmemory nothing is changed.
local inspected = tonumber(h[4] or text(t))
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
    local function lapsed(v)
      v.attempts = v.attempts + attempts
      return 0
    end
    for _, row in ipairs(list) do
      beginWrites()
      reopen(row, redis.call('HGET', executions, row) or 'r', lapsed)
    end
  end
  each(past, t - inspected > away_ms and 0 or 1)
  each(future, 0)
end

lapse(released, release_ms)
lapse(running, execution_ms)
if t - inspected > away_ms / 2 and redis.call('EXISTS', running) == 1 then beginWrites() end

local list, room = {}, release_rows
local per, wanted, contents, bytes = tonumber(h[3]), {}, {}, 0

-- fits adds the chunk of a row to the answer, and reports whether the row may be released:
-- the first always, the others while the chunks are not too large.
local function fits(row)
  local number = text(math.floor(tonumber(row) / per))
  if wanted[number] then return true end
  local content = chunk(number)
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
local function release(row)
  if room <= 0 or not fits(row) then return false end
  beginWrites()
  list[#list + 1] = row
  room = room - 1
  redis.call('ZADD', released, text(t), row)
  redis.call('HSET', executions, row, 'r' .. token)
  return true
end

-- releaseDue releases up to n rows of a set of waiting rows, and returns how many more may
-- be. A row due later than any may be, which is limit ms ahead, was placed while Redis'
-- clock was ahead.
local function releaseDue(set, n, limit)
  n = math.min(n, room)
  if n <= 0 then return 0 end
  local ripe = redis.call('ZRANGEBYSCORE', set, '-inf', text(t), 'LIMIT', 0, n)
  if #ripe < n then
    for _, row in ipairs(redis.call('ZRANGEBYSCORE', set, '(' .. text(t + (limit or ahead_ms)), '+inf', 'LIMIT', 0, n - #ripe)) do
      ripe[#ripe + 1] = row
    end
  end
  for _, row in ipairs(ripe) do
    if not release(row) then return 0 end
    redis.call('ZREM', set, row)
  end
  return n - #ripe
end

-- releaseNew releases up to n rows that were never released, in the order of release. That
-- has two bytes for each row, with the top bit set for the first row of a group. Without
-- one the order is that of the rows' numbers. It releases whole pieces, which are rows of one
-- group, and a part of one only if that is larger than what may be released at once.
local function releaseNew(n)
  local start = tonumber(h[2])
  if n <= 0 or room <= 0 or start >= rows then return end
  local place, pieces, most = start, tonumber(ARGV[5]), tonumber(ARGV[6])
  local places, done = redis.call('GET', order), redis.call('GET', settled)

  -- at returns the row at a place, and whether a group begins there.
  local function at(p)
    if not places then return p, false end
    local high, low = string.byte(places, 2 * p + 1, 2 * p + 2)
    return high % 128 * 256 + low, high >= 128
  end

  -- piece returns how many rows the piece at this place has, and whether they fit into this release.
  local function piece()
    local size, more, seen, p = 0, bytes, {}, place
    repeat
      local row = at(p)
      local number = text(math.floor(row / per))
      if not bit(done, row) then
        size = size + 1
        if not wanted[number] and not seen[number] then
          seen[number] = true
          more = more + redis.call('HSTRLEN', chunks, number)
        end
      end
      p = p + 1
    until size == most or p >= rows or select(2, at(p))
    return size, size <= math.min(n, room) and more <= release_bytes
  end

  local left = 0 -- of the piece
  while n > 0 and room > 0 and place < rows do
    local row = at(place)
    if not bit(done, row) then
      if places and left == 0 then
        local size, fits = piece()
        pieces = pieces - 1
        if pieces < 0 or #list > 0 and not fits then break end
        left = size
      end
      if not release(text(row)) then break end
      n = n - 1
      left = left - 1
    end
    place = place + 1
  end
  while place < rows and bit(done, (at(place))) do place = place + 1 end
  if place == start then return end
  beginWrites()
  redis.call('HSET', head, 'next', place)
  if place == rows then redis.call('UNLINK', order) end
end

local left = releaseDue(intended_ready, tonumber(ARGV[4]))
if not stop then releaseDue(ready, left) end
left = releaseDue(intended_check, tonumber(ARGV[3]))
if not stop then
  releaseDue(check, left)
  releaseNew(releaseDue(first, tonumber(ARGV[2]), due_ms))
end

count()
local at, phases = report()
allowWrites()
if at < 0 then
  redis.call('ZREM', due, name)
else -- one with due rows is the caller's for a while
  redis.call('ZADD', due, indexed(at > 0 and at or t + taken_ms), name)
end
earliest = -1
local answer = receipt({list, per, contents})
answer[3], answer[8] = at, phases
return answer
