-- ARGV: retention. Settles every open row that has not begun as cancelled, by
-- operations on whole bitmaps: a million rows are 125 KB. What has begun stays open,
-- with its mark, and the run with it. A run that is not sealed is sealed with the
-- rows that are stored. Answers how many rows it settled.
local r = redis.call('HMGET', run, 'sealed', 'total', 'stored', 'ended_at')
if not r[1] then return {'missing'} end
if r[4] then return {'ok', 0} end
local total = tonumber(r[2])
if r[1] ~= '1' then
  total = tonumber(r[3])
  local strange = beyond(total)
  if strange then return {'mismatch', 'item', strange} end
end

allowWrites()
local fresh = 0
if total > 0 then
  -- To its full length first: what is beyond the end of a bitmap is not inverted.
  local last = math.ceil(total / 8) * 8 - 1
  redis.call('SETBIT', settled, last, redis.call('GETBIT', settled, last))
  redis.call('BITOP', 'OR', scratch, settled, begun)
  redis.call('BITOP', 'NOT', scratch, scratch)
  for bit = total, last do redis.call('SETBIT', scratch, bit, 0) end
  fresh = redis.call('BITCOUNT', scratch)
  redis.call('BITOP', 'OR', cancelled, cancelled, scratch)
  redis.call('BITOP', 'OR', settled, settled, scratch)
  redis.call('DEL', scratch)
end
redis.call('HSET', run, 'sealed', 1, 'total', total)
redis.call('HSETNX', run, 'cancelled_at', now())
if fresh > 0 then
  redis.call('HINCRBY', run, 'settled', fresh)
  redis.call('HINCRBY', run, 'count:cancelled', fresh)
end
redis.call('HDEL', run, 'paused', 'resuming')
redis.call('UNLINK', notes, kept, cursor)
conclude()
return {'ok', fresh}
