-- KEYS: the hashes of minutes and of quarters of an hour. ARGV: the requests allowed a minute, then
-- how much to add to each other counter. A hash is a ring: an old period's field is used again, so that
-- nothing has to be deleted. Both are small enough for the compact encoding of hashes.
local now = tonumber(redis.call('TIME')[1])
for i, ring in ipairs({{60, 60}, {900, 96}}) do -- seconds of a period, and number of periods
  local period = math.floor(now / ring[1])
  local field = string.format('%d', period % ring[2])
  local old = {}
  for value in string.gmatch(redis.call('HGET', KEYS[i], field) or '', '[^,]+') do
    old[#old + 1] = tonumber(value)
  end
  if old[1] ~= period then old = {} end
  local new = {string.format('%d', period), ARGV[1]}
  for j = 2, #ARGV do
    new[j + 1] = string.format('%d', (old[j + 1] or 0) + tonumber(ARGV[j]))
  end
  redis.call('HSET', KEYS[i], field, table.concat(new, ','))
  redis.call('EXPIRE', KEYS[i], 172800)
end
return 1
