-- ARGV: entry. Removes the header of a run whose segments are removed, and its entry in the trash.
redis.call('HDEL', trash, entry)
if redis.call('HGET', header, 'inc') == incarnation then redis.call('UNLINK', header, sums, seen) end
return {'ok'}
