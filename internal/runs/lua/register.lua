-- ARGV: retention, kind, tenant, digest, created_at in ms, number of rows, SHA-256 of
-- them (32 bytes), the rows compressed, then fields and values.
-- Creates a run of one chunk whole, or finds it. A task may outlive its run, and must not
-- bring it back after it was deleted.
if redis.call('EXISTS', deleted) == 1 then return {'deleted'} end
local r = redis.call('HMGET', run, 'kind', 'tenant', 'digest')
if r[1] then
  if r[1] ~= ARGV[2] then return {'mismatch', 'kind', r[1]} end
  if r[2] ~= ARGV[3] then return {'mismatch', 'tenant', r[2]} end
  if r[3] ~= ARGV[4] then return {'mismatch', 'content', r[3]} end
  return {'ok'}
end
redis.call('HSET', run, 'kind', ARGV[2], 'tenant', ARGV[3], 'digest', ARGV[4],
  'created_at', ARGV[5], 'sealed', 1, 'total', ARGV[6], 'settled', 0, 'stored', ARGV[6], 'alone', 1)
for i = 9, #ARGV, 2 do
  redis.call('HSET', run, ARGV[i], ARGV[i + 1])
end
redis.call('HSET', rows, '0', ARGV[7] .. ARGV[8])
return {'created'}
