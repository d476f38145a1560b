-- ARGV: token, nonce, session, rows. Exchanges the token of each row for the nonce.
-- Answers with the rows, each {status}, or if it is admitted {status, value, intent}, where value and
-- intent may be false.
if not control() then return {'missing'} end
local token, nonce, session = ARGV[1], ARGV[2], ARGV[3]
local stop = stopped()
local execution = 'b' .. nonce .. ',' .. session

local function begin(row)
  if redis.call('GETBIT', settled, row) == 1 then return {'settled'} end
  local present, intent = redis.call('HGET', executions, row), redis.call('HGET', intents, row)
  if present ~= execution then
    if present ~= 'r' .. token then return {'superseded'} end
    if (stop or has(flags, 'c')) and not intent then
      reopen(row, present)
      return {has(flags, 'c') and 'settled' or 'stopped'}
    end
    redis.call('ZREM', released, row) -- first, so that the rest passes at maxmemory
    redis.call('ZADD', running, text(t), row)
    redis.call('HSET', executions, row, execution)
    inSession(session, 1)
  end
  return {'admitted', redis.call('HGET', values, row), intent}
end

return receipt(each(4, begin))
