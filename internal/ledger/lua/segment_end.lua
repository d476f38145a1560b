-- ARGV: nonce, the most subjects of a tenant, now by the clock of the execution in ms or 0, the
-- number of subjects to store, for each its id, name and data, then for each row: row, an ending
-- and its four arguments. The endings are
-- 's': outcome, result; 'w': stage, ms until it is due, 1 to count an attempt, plus 2 to forget the
-- earlier ones, memo; 'g': ms until it is due, note. Ends the execution of each row. Answers with the statuses of the rows.
if not control() then return {'missing'} end
local nonce = ARGV[1]

-- Rows wait from the earlier one of Redis' time and that of the execution on, so that a clock of
-- Redis that is ahead for a moment does not put them off.
local now = t
if ARGV[3] ~= '0' then now = math.min(t, tonumber(ARGV[3])) end
effect_at = now

-- again answers for a settled row, whose ending may repeat an earlier call: its answer was lost.
-- An execution that left the row open has settled it if the run was cancelled.
local function again(row, ending, outcome, result)
  local simple = redis.call('GETBIT', cancelled, row) == 1 and 'cancelled' or 'done'
  if ending ~= 's' then return simple == 'cancelled' and simple or 'settled' end
  return (redis.call('HGET', results, row) or simple .. ':') == outcome .. ':' .. result and 'ended' or 'settled'
end

-- left reports whether this execution has left the open row by the same ending.
local function left(row, ending, a, b, d)
  local v = read(row)
  if v.ended ~= short(nonce) then return false end
  if ending == 'g' then return v.note == b end
  return ending == 'w' and v.stage == a and v.memo == d and v.note == ''
end

local function finish(row, ending, a, b, c, d)
  if redis.call('GETBIT', settled, row) == 1 then return again(row, ending, a, b) end
  local execution = redis.call('HGET', executions, row)
  if not owned(execution, nonce) then return left(row, ending, a, b, d) and 'ended' or 'superseded' end
  if scans and ending == 's' and a == 'done' and redis.call('HEXISTS', header, 'scan_ended') == 0 then
    ending, a, b = 'g', '0', '' -- Redis has lost its last step
  end
  if ending == 's' then
    free(row, execution)
    settle(row, a, b)
    return 'written'
  end
  local v, due = read(row), 0
  if v.first == 0 then v.first = since(row, running) end
  v.ended = short(nonce)
  if ending == 'w' then
    v.stage, due, v.memo, v.note = a, now + tonumber(b), d, ''
    v.attempts = (tonumber(c) < 2 and v.attempts or 0) + c % 2
    v.damaged, v.died = false, 0
    -- A check that was requested meanwhile is made earlier, unless this attempt has failed.
    local by = tonumber(redis.call('HGET', executions, dueBy(row)) or '')
    if by and c % 2 == 0 then due = math.min(due, math.max(by, now)) end
  else
    due, v.note = now + tonumber(a), b
  end
  return leave(row, execution, v, due)
end

local rows = 5 + 3 * tonumber(ARGV[4])
for i = 5, rows - 1, 3 do learn(ARGV[i], ARGV[i + 1], ARGV[i + 2], tonumber(ARGV[2])) end
allowWrites()
local statuses = {}
for i = rows, #ARGV, 6 do statuses[#statuses + 1] = finish(unpack(ARGV, i, i + 5)) end
return receipt(statuses)
