-- ARGV: retention, kind, tenant, digest, created_at in ms or '', then fields and values.
local r = redis.call('HMGET', run, 'kind', 'tenant', 'digest')
if r[1] then
  if r[1] ~= ARGV[2] then return {'mismatch', 'kind', r[1]} end
  if r[2] ~= ARGV[3] then return {'mismatch', 'tenant', r[2]} end
  if r[3] ~= ARGV[4] then return {'mismatch', 'content', r[3]} end
  return {'there', redis.call('HGETALL', run)}
end
local created = ARGV[5]
if created == '' then created = now() end
redis.call('HSET', run, 'kind', ARGV[2], 'tenant', ARGV[3], 'digest', ARGV[4],
  'created_at', created, 'sealed', 0, 'total', 0, 'settled', 0, 'stored', 0)
for i = 6, #ARGV, 2 do
  redis.call('HSET', run, ARGV[i], ARGV[i + 1])
end
return {'created', redis.call('HGETALL', run)}
