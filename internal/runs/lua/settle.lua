-- ARGV: retention, kind, generation, outcome, detail, mark, evidence or '', then the rows. mark is '' or, for a
-- single row, '=' and the mark that it may have, name:value, or none: another one is
-- another execution's, which has begun something meanwhile.
-- All is looked at before anything is written: a call that is refused changes nothing.
local r = redis.call('HMGET', run, 'kind', 'sealed', 'total', 'marks')
if missing(ARGV[3]) then return {'missing'} end
if r[1] ~= ARGV[2] then return {'mismatch', 'kind', r[1]} end
if r[2] == '1' then
  local total = tonumber(r[3])
  for i = 8, #ARGV do
    if tonumber(ARGV[i]) >= total then return {'mismatch', 'item', ARGV[i]} end
  end
end

if ARGV[6] ~= '' and redis.call('GETBIT', settled, ARGV[8]) == 0 and redis.call('GETBIT', begun, ARGV[8]) == 1
  and '=' .. redis.call('HGET', intents, ARGV[8]) ~= ARGV[6] then
  return {'ok', 'begun'}
end

local outcome, detail = ARGV[4], ARGV[5]
local well = outcome == 'done' or outcome == 'unchanged'
local keep = detail ~= '' or (outcome ~= 'done' and outcome ~= 'cancelled')
local marks = {}
for name in string.gmatch(r[4] or '', '%S+') do marks[#marks + 1] = name end

allowWrites()
local fresh, counted, corrected = 0, 0, 0
for i = 8, #ARGV do
  local item = ARGV[i]
  local first = redis.call('SETBIT', settled, item, 1) == 0
  -- What was under way when the run was cancelled, and went well, did go well.
  local correction = not first and well and redis.call('GETBIT', cancelled, item) == 1
  if first then fresh = fresh + 1 end
  if correction then
    corrected = corrected + 1
    redis.call('SETBIT', cancelled, item, 0)
  end
  if first or correction then
    counted = counted + 1
    if outcome == 'cancelled' then redis.call('SETBIT', cancelled, item, 1) end
    local evidence = ARGV[7]
    if outcome == 'expired' then -- the last check that did not find the token
      evidence = redis.call('HGET', kept, item .. ':evidence') or ''
    end
    if evidence ~= '' then redis.call('HSET', fates, item .. ':evidence', evidence) end
    if keep then
      redis.call('HSET', fates, item, outcome .. ':' .. detail)
      redis.call('SETBIT', told, item, 1)
    elseif correction then
      redis.call('HDEL', fates, item)
      redis.call('SETBIT', told, item, 0)
    end
  end
  redis.call('HDEL', notes, item)
  for _, name in ipairs(marks) do redis.call('HDEL', kept, item .. ':' .. name) end
  if redis.call('GETBIT', begun, item) == 1 then
    redis.call('SETBIT', begun, item, 0)
    redis.call('HDEL', intents, item)
  end
end
if fresh > 0 then redis.call('HINCRBY', run, 'settled', fresh) end
if counted > 0 then redis.call('HINCRBY', run, 'count:' .. outcome, counted) end
if corrected > 0 then redis.call('HINCRBY', run, 'count:cancelled', -corrected) end
conclude()
return {'ok', ''}
