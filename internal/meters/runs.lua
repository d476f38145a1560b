-- KEYS: the hash of the requests of runs. ARGV: how many runs are counted by themselves in a minute, and of each
-- run its id and how many requests to add. A hash is a ring of ten minutes, as in add.lua, whose values are JSON.
-- Runs beyond the bound are counted together, under the empty id.
local minute = math.floor(tonumber(redis.call('TIME')[1]) / 60)
local field = string.format('%d', minute % 10)
local stored = redis.call('HGET', KEYS[1], field)
local ring = stored and cjson.decode(stored)
if not ring or ring.minute ~= minute then ring = {minute = minute, requests = {}} end
local known = 0
for _ in pairs(ring.requests) do known = known + 1 end
for i = 2, #ARGV, 2 do
  local run = ARGV[i]
  if not ring.requests[run] then
    if known < tonumber(ARGV[1]) then known = known + 1 else run = '' end
  end
  ring.requests[run] = (ring.requests[run] or 0) + tonumber(ARGV[i + 1])
end
redis.call('HSET', KEYS[1], field, cjson.encode(ring))
redis.call('EXPIRE', KEYS[1], 172800)
return 1
