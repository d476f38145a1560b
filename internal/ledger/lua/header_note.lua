-- ARGV: entry, note, when the next step is to be made in ms. Stores why it is late.
local no = refused()
if no then return no end
local h = redis.call('HMGET', header, 'scan_step', 'scan_ended', 'sealed', 'deleting_at')
if h[4] then return {'missing'} end
if not h[1] then return {'none'} end
if h[2] or h[3] then return {'ok'} end
allowWrites()
redis.call('HSET', header, 'scan_note', ARGV[2], 'scan_next', ARGV[3])
return {'ok'}
