-- ARGV: entry, '' or a field of the header, its value: then a staged run is deleted only while it
-- has that. KEYS: behind the others, the list of its caller's runs, the header of its parent, and
-- the keys of its first segment. Stores that the run is to be deleted, and takes it out of the
-- children of its parent, where a mark has its place, and of all lists but that of ended runs, where it
-- is until nothing of it is left. Answers {'ok', number of its segments}. A run of one segment is
-- deleted at once, unless it has a scan: then the number is -1.
local callers, parent = unpack(KEYS, run_keys + 1)
local lists = {runs, singles, open, staged, finishing, ended, stuck, callers}
local no = refused() -- a header that cannot be read can be deleted
if no and no[1] == 'missing' then
  for _, list in ipairs(lists) do redis.call('ZREM', list, entry) end
  return no
end
local h = redis.call('HMGET', header, 'segments', 'ended_at', 'staged', 'scan')
if h[1] and not h[2] then return {'open'} end
if ARGV[2] ~= '' and (h[1] or redis.call('HGET', header, ARGV[2]) ~= ARGV[3]) then return {'changed'} end
allowWrites()
disown(parent)
local n = math.max(tonumber(h[1]) or 0, tonumber(h[3]) or 0)
for _, list in ipairs(lists) do redis.call('ZREM', list, entry) end
for i = 1, n, 1000 do redis.call('ZREM', due, unpack(segments(i - 1, math.min(i + 999, n)))) end
redis.call('ZREM', due, scanRow)
if n <= 1 and not h[4] then
  redis.call('UNLINK', header, sums, unpack(KEYS, run_keys + 3))
  return {'ok', -1}
end
redis.call('HSETNX', header, 'deleting_at', text(t))
redis.call('ZADD', ended, '0', entry)
return {'ok', n}
