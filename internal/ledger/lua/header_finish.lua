-- ARGV: incarnation. Stores that the follow-ups of the end are done.
if not present() then return {'missing'} end
if redis.call('HEXISTS', header, 'ended_at') == 0 then return {'open'} end
if redis.call('HEXISTS', header, 'finished_at') == 0 then
  allowWrites()
  redis.call('HSET', header, 'finished_at', text(now()))
end
return {'ok'}
