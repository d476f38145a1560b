-- ARGV: first row, the most rows, which of them: '' for all, 'unsettled', or 'with result' for
-- settled ones that were not simply done, without their content. Answers {'ok', now, rows, rows of
-- a chunk, chunks, the row from which to go on or -1}; chunks is a flat list of numbers and
-- chunks. Each row is {number, phase, since or due in ms, execution, value, intent}, or if it is
-- settled {number, 's', 1 if it was cancelled, result, when it was settled in Unix seconds or 0, the
-- number of the child that has claimed it or 0}; a text that is not stored is false. It reads no more
-- than a thousand rows, and stops earlier if they are large. Writes nothing.
local h = redis.call('HMGET', head, 'rows', 'per')
if not h[1] then return {'missing'} end
local from, most, which = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3]
local all, per = tonumber(h[1]), tonumber(h[2])
local bytes = 0 -- of the texts in the answer

local function size(stored)
  if stored then bytes = bytes + #stored end
  return stored
end

local past = math.min(from + 1000, all)
if which == '' then past = math.min(from + most, past) end -- every row is in the answer

-- reader returns a function that reads a row of a key, by read. Rows are read in their order, so it
-- reads a block of them by one command: a command for each row would cost Redis a multiple. Most
-- segments lack most of the keys, which are looked for once,
-- when a row is read first.
local block = 128
local function reader(key, read)
  local start, stored, exists = past, {}, nil
  return function(number)
    if exists == nil then exists = redis.call('EXISTS', key) == 1 end
    if not exists then return false end
    if number < start or number >= start + #stored then
      local names = {}
      for i = number, math.min(number + block, past) - 1 do names[#names + 1] = text(i) end
      start, stored = number, read(key, names)
    end
    return stored[number - start + 1]
  end
end

-- valueOf returns a function that reads a row of a hash, scoreOf of a sorted set.
local function valueOf(hash)
  return reader(hash, function(key, rows) return redis.call('HMGET', key, unpack(rows)) end)
end
local function scoreOf(set)
  return reader(set, function(key, rows) return redis.call('ZMSCORE', key, unpack(rows)) end)
end

local execution, value, intent, result = valueOf(executions), valueOf(values), valueOf(intents), valueOf(results)
local releasedAt, begunAt = scoreOf(released), scoreOf(running)
local waiting = {}
for _, set in ipairs({check, ready, intended_check, intended_ready, first}) do waiting[#waiting + 1] = scoreOf(set) end

-- place returns the phase of an open row and its time.
local function place(number, execution)
  if begun(execution) then return 'b', tonumber(begunAt(number) or '0') end
  if execution then return 'r', tonumber(releasedAt(number) or '0') end
  for _, dueAt in ipairs(waiting) do
    local at = dueAt(number)
    if at then return 'w', tonumber(at) end
  end
  return 'q', 0
end

local times = redis.call('GETRANGE', effects, text(4 * from), text(4 * past - 1))

-- settledAt returns when a row was settled, in Unix seconds; 0: not known. A single row was when its
-- run ended.
local function settledAt(number)
  if head == header then return math.floor(tonumber(redis.call('HGET', header, 'ended_at') or '0') / 1000) end
  local seconds = 0
  for _, byte in ipairs({string.byte(times, 4 * (number - from) + 1, 4 * (number - from) + 4)}) do
    seconds = 256 * seconds + byte
  end
  return seconds
end

local done, gone = redis.call('GET', settled), redis.call('GET', cancelled)
local claimed = redis.call('GETRANGE', claims, text(2 * from), text(2 * past - 1))

-- state returns the row as it is in the answer; nil if it is none of those.
local function state(number)
  if bit(done, number) then
    if which == 'unsettled' then return end
    local stored, cancel = result(number), bit(gone, number)
    if which == 'with result' and not stored and not cancel then return end
    return {number, 's', cancel and 1 or 0, size(stored), settledAt(number), claim(claimed, number - from)}
  end
  if which == 'with result' then return end
  local held = execution(number)
  local phase, at = place(number, held)
  return {number, phase, at, size(held), size(value(number)), size(intent(number))}
end

local rows, wanted, contents, row = {}, {}, {}, from
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
