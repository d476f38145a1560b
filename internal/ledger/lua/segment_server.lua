-- Answers {'ok', identity of this server, its identity when the segment was staged or false}.
-- Writes nothing.
return {'ok', identity(), redis.call('HGET', head, 'server')}
