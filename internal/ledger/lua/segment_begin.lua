-- ARGV: token, nonce, session, rows. Exchanges the token of each row for the nonce.
-- Answers {'ok', closed, earliest, now, finish only, rows}. A row is {status}; if it is
-- admitted, {status, value, intent}, where either may be false.
local h = redis.call('HMGET', head, 'flags', 'not_before', 'v')
if not h[3] then return {'missing'} end
local token, nonce, session, t = ARGV[1], ARGV[2], ARGV[3], now()
local stop = stopped(h[1], h[2], t)
local execution = 'b' .. nonce .. ',' .. session

local function begin(row)
  if redis.call('GETBIT', settled, row) == 1 then return {'settled'} end
  local present, intent = redis.call('HGET', executions, row), redis.call('HGET', intents, row)
  if present ~= execution then
    if present ~= 'r' .. token then return {'superseded'} end
    if stop and not intent then
      reopen(row, present, h[1], t, 0, 0)
      return {'stopped'}
    end
    redis.call('ZREM', released, row) -- first, so that the rest passes at maxmemory
    redis.call('ZADD', running, text(t), row)
    redis.call('HSET', executions, row, execution)
    redis.call('HINCRBY', sessions, session, 1)
  end
  return {'admitted', load(row), intent}
end

local answers = {}
for i = 4, #ARGV do answers[#answers + 1] = begin(ARGV[i]) end
local finish = (stop or has(h[1], 'c')) and 1 or 0
return {'ok', closed(), earliest(t), t, finish, answers}
