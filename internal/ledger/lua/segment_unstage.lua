-- ARGV: name of the segment. Removes the last segment of a staged run.
local entry, digits = string.match(ARGV[1], '^(.*)/(%d+)$')
local number = tonumber(digits)
local run = redis.call('HMGET', header, 'inc', 'segments', 'staged', 'deleting_at')
if run[1] ~= string.match(entry, '/(.*)$') or run[4] then return {'missing'} end
if run[2] then return {'mismatch'} end
if tonumber(run[3]) ~= number + 1 then return {'ok'} end
unstage()
redis.call('HSET', header, 'staged', number)
local stored = redis.call('GET', sums) or ''
redis.call('SET', sums, string.sub(stored, 1, #stored / (number + 1) * number))
return {'ok'}
