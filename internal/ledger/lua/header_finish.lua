-- ARGV: incarnation. Stores that the follow-ups of the end are done.
local no = refused()
if no then return no end
if redis.call('HEXISTS', header, 'ended_at') == 0 then return {'open'} end
if redis.call('HEXISTS', header, 'finished_at') == 0 then
  allowWrites()
  redis.call('HSET', header, 'finished_at', text(now()))
end
return {'ok'}
