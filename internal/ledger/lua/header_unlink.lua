-- ARGV: entry. Removes the header of a run whose segments are removed, and its last entry in a list.
redis.call('ZREM', ended, entry)
if redis.call('HGET', header, 'inc') == incarnation then redis.call('UNLINK', header, sums, seen) end
return {'ok'}
