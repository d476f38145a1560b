-- Adds the task ARGV[1] to the backlog KEYS[1] unless it is there, or KEYS[2] says that it was
-- delivered, with the time ARGV[2]
-- microseconds ago as its score. Removes what is older than ARGV[3] ms, and has the key
-- expire after that time without use.
-- Returns "delivered", or "1" if the task was added, else "0", followed by the oldest tasks beyond the bound
-- ARGV[4], at most ARGV[5] of them.
if redis.call('EXISTS', KEYS[2]) == 1 then return {'delivered'} end
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
-- tostring would round to 14 digits.
local function score(at) return string.format('%.0f', at) end

local result = {tostring(redis.call('ZADD', KEYS[1], 'NX', score(now - ARGV[2]), ARGV[1]))}
redis.call('PEXPIRE', KEYS[1], ARGV[3])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', score(now - ARGV[3] * 1000))
local over = math.min(redis.call('ZCARD', KEYS[1]) - ARGV[4], tonumber(ARGV[5]))
if over > 0 then
  for _, id in ipairs(redis.call('ZRANGE', KEYS[1], 0, over - 1)) do
    result[#result + 1] = id
  end
end
return result
