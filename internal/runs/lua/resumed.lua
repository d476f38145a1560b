-- ARGV: retention, generation of which all is enqueued.
if redis.call('HGET', run, 'resuming') == ARGV[2] then redis.call('HDEL', run, 'resuming') end
return {'ok'}
