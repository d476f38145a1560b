-- ARGV: incarnation, flags to set, flags to clear, not before in ms or '' to keep it,
-- a version that the new one must exceed. Answers {'ok', header}, or the reason for
-- which nothing was changed.
if not present() then return {'missing'} end
local h = redis.call('HMGET', header, 'flags', 'not_before', 'segments', 'ended_at', 'deleting_at', 'v')
local flags, before = h[1], ARGV[4]
if h[5] then return {'missing'} end
if h[4] then return {'ended'} end
if has(ARGV[2], 'c') and not h[3] then return {'staged'} end
for letter in string.gmatch(ARGV[2], '.') do
  if not has(flags, letter) then flags = flags .. letter end
end
for letter in string.gmatch(ARGV[3], '.') do flags = string.gsub(flags, letter, '') end
if before == '' then before = h[2] end
if flags == h[1] and before == h[2] and tonumber(ARGV[5]) < tonumber(h[6]) then return read('ok') end
allowWrites()
redis.call('HSET', header, 'flags', flags, 'not_before', before, 'v', text(version(tonumber(ARGV[5]))))
if has(flags, 'c') then
  redis.call('HSETNX', header, 'cancelled_at', text(now()))
  redis.call('HSET', header, 'sealed', '1') -- it takes no more rows
end
return read('ok')
