-- ARGV: entry. Answers {'ok', header, cursor of the scan or false}. Writes nothing.
local no = refused()
if no then return no end
if redis.call('HEXISTS', header, 'deleting_at') == 1 then return {'missing'} end
return {'ok', redis.call('HGETALL', header), redis.call('HGET', scan, 'cursor')}
