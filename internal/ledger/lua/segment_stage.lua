-- ARGV: name of the segment, tenant, kind, rows, sum, rows of a chunk, 1 if it is the
-- run's last segment, 1 if it awaits due times or results, the order of release or '', the
-- number of rows with a due time, which are the first of that order, then the chunks.
-- Replaces a staged segment that differs.

local h = redis.call('HMGET', head, 'sum', 'v', 'next')
local function arranged() return h[3] == ARGV[10] and (redis.call('GET', order) or '') == ARGV[9] end
if h[1] == ARGV[5] and (h[2] or arranged()) then
  redis.call('HSET', head, 'last', ARGV[7]) -- rows may have been added behind it, or taken away
  return {'ok'}
end
if h[2] then return {'mismatch'} end
if h[1] then redis.call('UNLINK', unpack(KEYS)) end -- else the first write is one that maxmemory refuses
redis.call('HSET', head, 'name', ARGV[1], 'tenant', ARGV[2], 'kind', ARGV[3], 'rows', ARGV[4], 'sum', ARGV[5],
  'per', ARGV[6], 'last', ARGV[7], 'next', ARGV[10], 'settled', '0')
if ARGV[8] == '1' then redis.call('HSET', head, 'awaits', '1') end
if ARGV[9] ~= '' then redis.call('SET', order, ARGV[9]) end
local fields = {}
for i = 11, #ARGV do
  fields[#fields + 1] = text(i - 11)
  fields[#fields + 1] = ARGV[i]
  if #fields == 2000 or i == #ARGV then -- unpack takes fewer than 8,000
    redis.call('HSET', chunks, unpack(fields))
    fields = {}
  end
end
return {'ok'}
