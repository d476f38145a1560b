-- ARGV: first row, the most rows. Answers {'ok', now, rows, rows of a chunk, chunks}, the
-- latter a flat list of numbers and chunks. Each row is {phase, since or due in ms,
-- execution, value, intent}, or if it is settled {'s', 1 if it was cancelled, result}; a text that is
-- not stored is false. There are fewer rows than wanted if these are large, but at least one. Writes
-- nothing.
local h = redis.call('HMGET', head, 'rows', 'per')
if not h[1] then return {'missing'} end
local from, past = tonumber(ARGV[1]), math.min(ARGV[1] + ARGV[2], tonumber(h[1]))
local per, wanted, contents, bytes = tonumber(h[2]), {}, {}, 0

local function size(stored)
  if stored then bytes = bytes + #stored end
  return stored
end

-- Most rows are in none of these: what is not there is looked for once, and not for each row.
local waiting = {}
for _, set in ipairs({check, ready, intended_check, intended_ready, first}) do
  if redis.call('EXISTS', set) == 1 then waiting[#waiting + 1] = set end
end
local valued, intended = redis.call('EXISTS', values) == 1, redis.call('EXISTS', intents) == 1
local bits, executing = redis.call('GET', settled) or '', {}
if past > from and redis.call('EXISTS', executions) == 1 then
  local names = {}
  for row = from, past - 1 do names[#names + 1] = text(row) end
  executing = redis.call('HMGET', executions, unpack(names))
end

local function isSettled(row)
  local byte = string.byte(bits, math.floor(row / 8) + 1) or 0
  return math.floor(byte / 2 ^ (7 - row % 8)) % 2 == 1
end

-- place returns the phase of an open row and its time.
local function place(row, execution)
  if execution then
    local phase, set = 'r', released
    if begun(execution) then phase, set = 'b', running end
    return phase, tonumber(redis.call('ZSCORE', set, row) or '0')
  end
  for _, set in ipairs(waiting) do
    local at = redis.call('ZSCORE', set, row)
    if at then return 'w', tonumber(at) end
  end
  return 'q', 0
end

local function state(number)
  local row = text(number)
  if isSettled(number) then
    return {'s', redis.call('GETBIT', cancelled, row), size(redis.call('HGET', results, row))}
  end
  local execution, value, intent = executing[number - from + 1] or false, false, false
  local phase, at = place(row, execution)
  if valued then value = size(redis.call('HGET', values, row)) end
  if intended then intent = size(redis.call('HGET', intents, row)) end
  return {phase, at, execution, value, intent}
end

local rows = {}
for row = from, past - 1 do
  rows[#rows + 1] = state(row)
  local number = text(math.floor(row / per))
  if not wanted[number] then
    wanted[number] = true
    contents[#contents + 1] = number
    contents[#contents + 1] = size(chunk(number))
  end
  if bytes >= page_bytes then break end
end
return {'ok', t, rows, per, contents}
