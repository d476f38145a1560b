-- ARGV: version, flags, not before in ms, sum, version that this one replaced. Brings the segment up to the header's
-- control and answers how it is: {'ok', closed, earliest, waiting, released, running,
-- counters}. The answer is 'missing' or 'differs' if the segment is not the one that was
-- staged, and {'newer', version, flags, not before} if its control is newer than the
-- caller's, or newer than the one that the caller's replaced. With an empty sum it is
-- any segment that was committed.
local h = redis.call('HMGET', head, 'sum', 'v', 'flags', 'not_before', 'rows')
if not h[1] then return {'missing'} end
if ARGV[4] == '' and not h[2] then return {'missing'} end
if ARGV[4] ~= '' and h[1] ~= ARGV[4] then return {'differs'} end
local own, version = tonumber(h[2] or '0'), tonumber(ARGV[1])
if own > version or own < version and own > tonumber(ARGV[5]) then return {'newer', h[2], h[3], h[4]} end

-- cancelRows settles every open row that is neither in progress nor has an intent, by
-- operations on whole bitmaps.
local function cancelRows()
  local rows = tonumber(h[5])
  local kept = {} -- row -> whether it may wait or be released
  for _, row in ipairs(redis.call('HKEYS', intents)) do kept[row] = true end
  for _, row in ipairs(redis.call('ZRANGE', running, 0, -1)) do kept[row] = false end

  local bits = string.rep('\255', math.floor(rows / 8))
  if rows % 8 > 0 then bits = bits .. string.char(256 - 2 ^ (8 - rows % 8)) end
  redis.call('SET', scratch, bits)
  local back = {}
  for row, idle in pairs(kept) do
    redis.call('SETBIT', scratch, row, 0)
    back[#back + 1] = {
      row, load(row), redis.call('HGET', executions, row), idle and redis.call('ZSCORE', check, row),
      idle and redis.call('ZSCORE', ready, row), idle and redis.call('ZSCORE', released, row),
    }
  end
  redis.call('BITOP', 'AND', mask, scratch, settled)
  redis.call('BITOP', 'XOR', scratch, scratch, mask)
  local fresh = redis.call('BITCOUNT', scratch)
  redis.call('BITOP', 'OR', cancelled, cancelled, scratch)
  redis.call('BITOP', 'OR', settled, settled, scratch)
  redis.call('DEL', scratch, mask)

  redis.call('UNLINK', values, executions, check, ready, released)
  for _, b in ipairs(back) do
    if b[2] then store(b[1], b[2]) end
    if b[3] then redis.call('HSET', executions, b[1], b[3]) end
    if b[4] then redis.call('ZADD', check, b[4], b[1]) end
    if b[5] then redis.call('ZADD', ready, b[5], b[1]) end
    if b[6] then redis.call('ZADD', released, b[6], b[1]) end
  end
  redis.call('HSET', head, 'next', rows)
  if fresh > 0 then
    redis.call('HINCRBY', head, 'settled', fresh)
    redis.call('HINCRBY', head, 'n:cancelled', fresh)
  end
end

if own < version then
  allowWrites()
  if own == 0 then
    redis.call('PERSIST', head)
    redis.call('PERSIST', chunks)
  end
  redis.call('HSET', head, 'v', ARGV[1], 'flags', ARGV[2], 'not_before', ARGV[3])
  if has(ARGV[2], 'c') and not has(h[3], 'c') then cancelRows() end
end
local t = now()
return {
  'ok', closed(), earliest(t),
  redis.call('ZCARD', check) + redis.call('ZCARD', ready), redis.call('ZCARD', released), redis.call('ZCARD', running),
  redis.call('HGETALL', head),
}
