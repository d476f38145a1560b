-- ARGV: incarnation, version, flags, not before in ms. Takes over the control of a
-- segment that is newer than the header's, which a Redis has lost. Answers the header.
if not present() then return {'missing'} end
if tonumber(redis.call('HGET', header, 'v')) < tonumber(ARGV[2]) then
  allowWrites()
  redis.call('HSET', header, 'v', ARGV[2], 'flags', ARGV[3], 'not_before', ARGV[4])
  if has(ARGV[3], 'c') then
    redis.call('HSETNX', header, 'cancelled_at', text(now()))
    redis.call('HSET', header, 'sealed', '1')
  end
end
return read('ok')
