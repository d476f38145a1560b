-- ARGV: first row, the most rows, which of them: '' for all, 'unsettled', or 'with result' for
-- settled ones that were not simply done, without their content. Answers {'ok', now, rows, rows of
-- a chunk, chunks, the row from which to go on or -1}; chunks is a flat list of numbers and
-- chunks. Each row is {number, phase, since or due in ms, execution, value, intent}, or if it is
-- settled {number, 's', 1 if it was cancelled, result}; a text that is not stored is false. It
-- reads no more than a thousand rows, and stops earlier if they are large. Writes nothing.
local h = redis.call('HMGET', head, 'rows', 'per')
if not h[1] then return {'missing'} end
local from, most, which = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3]
local all, per = tonumber(h[1]), tonumber(h[2])
local bytes = 0 -- of the texts in the answer

local function size(stored)
  if stored then bytes = bytes + #stored end
  return stored
end

-- reader returns a function that reads a row of a hash. Most segments lack most of the keys, which
-- are looked for once, and not for each row.
local function reader(hash)
  local exists = redis.call('EXISTS', hash) == 1
  return function(row) return exists and size(redis.call('HGET', hash, row)) end
end
local executionOf, valueOf, intentOf, resultOf = reader(executions), reader(values), reader(intents), reader(results)

local waiting = {}
for _, set in ipairs({check, ready, intended_check, intended_ready, first}) do
  if redis.call('EXISTS', set) == 1 then waiting[#waiting + 1] = set end
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

local done, gone = redis.call('GET', settled), redis.call('GET', cancelled)

-- state returns the row as it is in the answer; nil if it is none of those.
local function state(number)
  local row = text(number)
  if bit(done, number) then
    if which == 'unsettled' then return end
    local result, cancel = resultOf(row), bit(gone, number)
    if which == 'with result' and not result and not cancel then return end
    return {number, 's', cancel and 1 or 0, result}
  end
  if which == 'with result' then return end
  local execution = executionOf(row)
  local phase, at = place(row, execution)
  return {number, phase, at, execution, valueOf(row), intentOf(row)}
end

local rows, wanted, contents, row, past = {}, {}, {}, from, math.min(from + 1000, all)
while row < past and #rows < most and bytes < page_bytes do
  local found, number = state(row), text(math.floor(row / per))
  rows[#rows + 1] = found
  if found and which ~= 'with result' and not wanted[number] then
    wanted[number] = true
    contents[#contents + 1] = number
    contents[#contents + 1] = size(chunk(number))
  end
  row = row + 1
end
return {'ok', t, rows, per, contents, row < all and row or -1}
