-- ARGV: token, the most rows that were never released, the most at stage check, the most
-- at stage ready. Answers {'ok', closed, earliest, now, rows, rows of a chunk, chunks}
-- with a flat list of chunk numbers and chunks.
local h = redis.call('HMGET', head, 'rows', 'next', 'flags', 'not_before', 'v', 'per')
if not h[5] then return {'missing'} end
local token, t = ARGV[1], now()
local flags, rows = h[3], tonumber(h[1])
local stop = stopped(flags, h[4], t)

-- lapsed returns some rows of a set of start times that are limit ms ago, or so far in the
-- future that Redis' clock must have been ahead.
local function lapsed(set, limit)
  local past = redis.call('ZRANGEBYSCORE', set, '-inf', text(t - limit), 'LIMIT', 0, 100)
  local future = redis.call('ZRANGEBYSCORE', set, '(' .. text(t + limit), '+inf', 'LIMIT', 0, 100)
  for _, row in ipairs(future) do past[#past + 1] = row end
  return past
end

for _, row in ipairs(lapsed(released, release_ms)) do
  reopen(row, redis.call('HGET', executions, row), flags, t, 0, 0)
end
for _, row in ipairs(lapsed(running, execution_ms)) do
  local at = tonumber(redis.call('ZSCORE', running, row))
  reopen(row, redis.call('HGET', executions, row), flags, t, math.min(at, t), 1)
end

local list = {}
local function release(row)
  list[#list + 1] = row
  redis.call('ZADD', released, text(t), row)
  redis.call('HSET', executions, row, 'r' .. token)
end

-- releaseDue releases up to n rows of a set of waiting rows. A row due later than any
-- may be was placed while Redis' clock was ahead.
local function releaseDue(set, n)
  if n <= 0 then return end
  local due = redis.call('ZRANGEBYSCORE', set, '-inf', text(t), 'LIMIT', 0, n)
  if #due < n then
    for _, row in ipairs(redis.call('ZRANGEBYSCORE', set, '(' .. text(t + wait_ms), '+inf', 'LIMIT', 0, n - #due)) do
      due[#due + 1] = row
    end
  end
  for _, row in ipairs(due) do
    redis.call('ZREM', set, row)
    release(row)
  end
end

-- releaseIntents releases up to n rows that may have a request under way: they are
-- finished also while the run is stopped.
local function releaseIntents(set, n)
  for _, row in ipairs(redis.call('HKEYS', intents)) do
    local due = tonumber(redis.call('ZSCORE', set, row))
    if n > 0 and due and (due <= t or due > t + wait_ms) then
      redis.call('ZREM', set, row)
      release(row)
      n = n - 1
    end
  end
end

if stop then
  releaseIntents(check, tonumber(ARGV[3]))
  releaseIntents(ready, tonumber(ARGV[4]))
else
  releaseDue(ready, tonumber(ARGV[4]))
  releaseDue(check, tonumber(ARGV[3]))
  local row, n = tonumber(h[2]), tonumber(ARGV[2])
  while n > 0 and row < rows do
    if redis.call('GETBIT', settled, row) == 0 then
      release(text(row))
      n = n - 1
    end
    row = row + 1
  end
  redis.call('HSET', head, 'next', row)
end

local per, wanted, contents = tonumber(h[6]), {}, {}
for _, row in ipairs(list) do
  local number = text(math.floor(tonumber(row) / per))
  if not wanted[number] then
    wanted[number] = true
    contents[#contents + 1] = number
    contents[#contents + 1] = redis.call('HGET', chunks, number) or ''
  end
end
return {'ok', closed(), earliest(t), t, list, per, contents}
