-- ARGV: retention, generation of which all is enqueued. By then nothing is lost.
if redis.call('HGET', run, 'resuming') == ARGV[2] then
  redis.call('HDEL', run, 'resuming', 'lost', 'lost_at', 'walk_lost_at')
end
return {'ok'}
