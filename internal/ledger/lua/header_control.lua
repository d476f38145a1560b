-- KEYS: behind the others, the header of the parent. ARGV: entry, flag to set or '', flag to clear or
-- ''. Answers {'ok', header}, or the reason for which nothing was changed. The segments of a run that goes on are due at once, and so are those
-- of one that is cancelled: its rows are settled when they are inspected.
local no = refused()
if no then return no end
local h = redis.call('HMGET', header, 'flags', 'segments', 'ended_at', 'deleting_at', 'scan')
if h[4] then return {'missing'} end
if h[3] or ARGV[2] == 'p' and has(h[1], 'c') then return {'ended'} end
local flags = h[1] or ''
if ARGV[3] ~= '' then flags = string.gsub(flags, ARGV[3], '') end
if ARGV[2] ~= '' and not has(flags, ARGV[2]) then flags = flags .. ARGV[2] end
if flags == h[1] then return read('ok') end
allowWrites()
redis.call('HSET', header, 'flags', flags)
if ARGV[2] == 'c' then
  redis.call('HSET', header, 'cancelled_at', text(t)) -- it takes no more rows
  redis.call('UNLINK', seen)
  redis.call('ZREM', staged, entry)
  if not h[2] then -- a staged run ends without rows
    redis.call('HSET', header, 'segments', '0', 'rows', '0', 'closed', '0', 'committed_at', text(t))
    redis.call('UNLINK', sums)
    disown(KEYS[run_keys + 1]) -- it repeats no row
  end
  conclude(entry)
end
if ARGV[2] ~= 'p' then
  soon(t, segments(0, tonumber(h[2] or '0')))
  if h[5] then soon(t, {scanRow}) end
end
return read('ok')
