-- ARGV: entry, number of the step, token of the caller, number of blocks in earlier
-- parts, 1 if this is the last part, 1 if the scan ends, rows of the step, progress, cursor,
-- number of the rows' keys, these keys, then the blocks of this part. The last part makes the
-- step, and has the keys; until then the blocks do not count. Answers 'passed' if the step is not to be made any more, or if another caller has
-- begun it since.
local no = refused()
if no then return no end
local h = redis.call('HMGET', header, 'scan_step', 'scan_ended', 'sealed', 'deleting_at')
if h[4] then return {'missing'} end
if not h[1] then return {'none'} end
if h[1] ~= ARGV[2] or h[2] or h[3] then return {'passed'} end
local earlier, past = tonumber(ARGV[4]), place('past')
local keep = past - place('first') + earlier -- blocks of the list that stay
local size = redis.call('LLEN', found)
if earlier > 0 and (redis.call('HGET', scan, 'draft') ~= ARGV[3] or size < keep) then return {'passed'} end
redis.call('HSET', scan, 'draft', ARGV[3]) -- needs memory: at maxmemory nothing is changed
if size > keep then -- an attempt that was interrupted, or this part, whose answer was lost
  if keep == 0 then redis.call('UNLINK', found) else redis.call('LTRIM', found, 0, keep - 1) end
end
local keys = 10 + ARGV[10]
for i = keys + 1, #ARGV do redis.call('RPUSH', found, ARGV[i]) end
if ARGV[5] ~= '1' then return {'ok'} end
if ARGV[7] ~= '0' then
  if place('first') == past then redis.call('HSET', scan, 'since', text(now())) end
  redis.call('HINCRBY', scan, 'rows', ARGV[7])
end
redis.call('HSET', scan, 'cursor', ARGV[9], 'past', text(past + earlier + #ARGV - keys))
for i = 11, keys, 1000 do redis.call('SADD', seen, unpack(ARGV, i, math.min(i + 999, keys))) end
redis.call('HDEL', scan, 'draft')
redis.call('HSET', header, 'scan', ARGV[8], 'scan_step', text(h[1] + 1))
redis.call('HDEL', header, 'scan_note', 'scan_next')
if ARGV[6] == '1' then redis.call('HSET', header, 'scan_ended', '1') end
return {'ok'}
