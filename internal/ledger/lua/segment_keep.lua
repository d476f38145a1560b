-- Keeps a staged segment for as long as its run is listed.
redis.call('PERSIST', head)
redis.call('PERSIST', chunks)
return {'ok'}
