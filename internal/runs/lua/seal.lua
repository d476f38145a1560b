-- ARGV: retention, total, rows of a chunk.
local r = redis.call('HMGET', run, 'sealed', 'total', 'stored', 'cancelled_at')
if not r[1] then return {'missing'} end
if r[4] then return {'cancelled'} end
if r[1] == '1' then
  if tonumber(r[2]) ~= tonumber(ARGV[2]) then return {'mismatch', 'total', r[2]} end
  return {'ok'}
end
local total = tonumber(ARGV[2])
if tonumber(r[3]) > total then return {'mismatch', 'total', r[3]} end

-- It would stand in for one that is open.
local strange = beyond(total)
if strange then return {'mismatch', 'item', strange} end

-- A Redis that was restarted may have forgotten rows that it had acknowledged,
-- and have been given later ones since.
local size = tonumber(ARGV[3])
if redis.call('HLEN', rows) ~= math.ceil(total / size) then
  for first = 0, total - 1, size do
    if redis.call('HEXISTS', rows, first) == 0 then return {'gap', first} end
  end
end
if tonumber(r[3]) < total then return {'gap', tonumber(r[3])} end

redis.call('HSET', run, 'sealed', 1, 'total', total)
-- A walk has enqueued its last rows by now; tasks made anew end no earlier than those.
if redis.call('HEXISTS', run, 'walk_step') == 1 then redis.call('HSET', run, 'stored_at', now()) end
conclude()
return {'ok'}
