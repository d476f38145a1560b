-- ARGV: incarnation, flags to set, flags to clear, then a segment's control: version or 0,
-- flags. If the header does not know that control, since a Redis has lost it, it is taken
-- over first, also after the end; if it does, nothing is changed, since another change came
-- later. Answers {'ok', header}, or the reason for which nothing was changed.
local no = refused()
if no then return no end
local h = redis.call('HMGET', header, 'flags', 'segments', 'ended_at', 'deleting_at')
local flags, at = h[1] or '', tonumber(ARGV[4])
if h[4] then return {'missing'} end
if h[3] and ARGV[2] .. ARGV[3] ~= '' then return {'ended'} end
if at > 0 then
  if not unknown(at) then return read('ok') end
  flags = combined(at, ARGV[5])
end
for letter in string.gmatch(ARGV[2], '.') do
  if not has(flags, letter) then flags = flags .. letter end
end
for letter in string.gmatch(ARGV[3], '.') do flags = string.gsub(flags, letter, '') end
if at == 0 and flags == h[1] then return read('ok') end
allowWrites()
write(flags, at)
if has(flags, 'c') and not h[2] then -- a staged run ends without rows
  redis.call('HSET', header, 'segments', '0', 'rows', '0', 'committed_at', text(now()))
end
return read('ok')
