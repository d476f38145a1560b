-- ARGV: retention, row, generation, name, value, former, 1 to amend a mark that has to be
-- there. Answers what stands against
-- it; a row that has not begun does not begin then. former is the mark as the caller
-- has read it: another one there is another execution's, and stays. One that is the
-- value already is the caller's own, sent twice.
local r = redis.call('HMGET', run, 'sealed', 'total')
if missing(ARGV[3]) then return {'missing'} end
if r[1] == '1' and tonumber(ARGV[2]) >= tonumber(r[2]) then return {'mismatch', 'item', ARGV[2]} end
if redis.call('GETBIT', settled, ARGV[2]) == 1 then return {'ok', 'settled'} end
local word = against(ARGV[3])
if word == 'superseded' then return {'ok', word} end -- the mark is another task's by now
local has = redis.call('GETBIT', begun, ARGV[2]) == 1
if has then
  local is = redis.call('HGET', intents, ARGV[2])
  if is ~= ARGV[4] .. ':' .. ARGV[6] and is ~= ARGV[4] .. ':' .. ARGV[5] then return {'ok', 'begun'} end
elseif ARGV[7] == '1' and ARGV[5] ~= '' then
  return {'ok', 'begun'}
end
if ARGV[5] == '' then
  if has then
    redis.call('SETBIT', begun, ARGV[2], 0)
    redis.call('HDEL', intents, ARGV[2])
  end
elseif has or word == '' then
  redis.call('SETBIT', begun, ARGV[2], 1)
  redis.call('HSET', intents, ARGV[2], ARGV[4] .. ':' .. ARGV[5])
end
return {'ok', word}
