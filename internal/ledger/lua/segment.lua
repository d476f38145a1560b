-- Begins every script of a segment. The keys scratch and mask exist only while a script runs.
-- The first argument is the segment's name, <run>/<incarnation>/<number>; the numbers of the others,
-- which each script lists, begin behind it.
local name = table.remove(ARGV, 1)
local entry, incarnation, number = string.match(name, '^([^/]*/(.*))/(%d+)$')
local scans = tonumber(number) == scan_segment -- whether this is the segment of a scan's row
local flags, before = '', 0 -- the control of the run: see control

-- chunk returns a chunk of the rows. That of a single row is in the header, in pieces: see submit.go.
local function chunk(number)
  local content, piece, n = redis.call('HGET', chunks, number) or '', '', 0
  while head == header and piece do
    content, n = content .. piece, n + 1
    piece = redis.call('HGET', header, number .. '.' .. n)
  end
  return content
end

-- bit reports whether the bit of a row is set in a bitmap, which is false if there is none.
local function bit(bitmap, row)
  local byte = string.byte(bitmap or '', math.floor(row / 8) + 1) or 0
  return math.floor(byte / 2 ^ (7 - row % 8)) % 2 == 1
end

-- claim returns the number of the child that has claimed a row, from the claims of rows, two bytes
-- each, the higher first; 0: none has.
local function claim(claims, row)
  local high, low = string.byte(claims, 2 * row + 1, 2 * row + 2)
  return 256 * (high or 0) + (low or 0)
end

-- An execution is stored as r<token> once its row is released, and as
-- b<nonce>,<session> once it has begun.
local function begun(execution) return execution and string.sub(execution, 1, 1) == 'b' end

local function owned(execution, nonce)
  return execution and string.sub(execution, 1, #nonce + 2) == 'b' .. nonce .. ','
end

-- dueBy returns the field of executions with the time by which a row in progress shall be due
-- again: see segment_make_due.lua.
local function dueBy(row) return 'due' .. row end

-- read returns the value that is stored with a row, as a table: stage, attempts, first
-- begin in ms (0: none), the beginning of the token or nonce of the last release or
-- execution that ended, the number of executions since then that died with their worker,
-- note and memo. If it cannot be read, damaged is true.
local function read(row)
  local value = redis.call('HGET', values, row)
  local v = {stage = 'c', attempts = 0, first = 0, ended = '', died = 0, note = '', memo = ''}
  if not value then return v end
  local stage, attempts, begin, ended, size, past = string.match(value, '^(%a)(%d+),(%d+),(%w*),?(%d*);()')
  if not stage then
    v.damaged = true
    return v
  end
  v.stage, v.attempts, v.first = stage, tonumber(attempts), tonumber(begin)
  v.ended = #ended < 6 and '' or string.sub(ended, 1, 6)
  v.died = tonumber(string.sub(ended, #v.ended + 1)) or 0
  size = tonumber(size) or 0
  v.note, v.memo = string.sub(value, past, past + size - 1), string.sub(value, past + size)
  return v
end

local function write(row, v)
  local note = v.note ~= '' and ',' .. #v.note or ''
  local ended = v.ended .. (v.died > 0 and text(v.died) or '')
  redis.call('HSET', values, row,
    v.stage .. text(v.attempts) .. ',' .. text(v.first) .. ',' .. ended .. note .. ';' .. v.note .. v.memo)
end

-- short returns the beginning of a token or nonce. It distinguishes a repeated write of the
-- release or execution that ended last from one that was superseded.
local function short(random) return string.sub(random, 1, 6) end

-- inSession counts rows that begin or end in a session.
local function inSession(session, n)
  local field = session .. ',' .. name
  if redis.call('HINCRBY', sessions, field, n) <= 0 then redis.call('HDEL', sessions, field) end
end

-- free ends a row's release or execution.
local function free(row, execution)
  redis.call('HDEL', executions, row, dueBy(row))
  if not begun(execution) then
    redis.call('ZREM', released, row)
    return
  end
  redis.call('ZREM', running, row)
  inSession(string.match(execution, ',(.*)$') or '', -1)
end

-- clear removes everything that is stored of rows apart from their results.
local function clear()
  redis.call('UNLINK', first, check, ready, intended_check, intended_ready, values, released, running, executions,
    intents, order)
end

local effect_at = t -- when the rows that this script settles were carried out, in ms

-- settledAt stores when a row was carried out, in Unix seconds, as four bytes, the highest first.
local function settledAt(row)
  if head == header then return end -- a single row: its run ends now
  local s = math.floor(effect_at / 1000)
  local bytes = string.char(math.floor(s / 2 ^ 24) % 256, math.floor(s / 2 ^ 16) % 256, math.floor(s / 2 ^ 8) % 256, s % 256)
  redis.call('SETRANGE', effects, text(4 * row), bytes)
end

local tally = {} -- the rows that this script settled, by outcome

-- settle settles an open row that is neither released, in progress nor waiting any more.
-- Nothing is stored of a row that simply succeeded, or that was simply cancelled, but a
-- bit.
local function settle(row, outcome, result)
  redis.call('SETBIT', settled, row, 1)
  settledAt(row)
  tally[outcome] = (tally[outcome] or 0) + 1
  if outcome == 'cancelled' then redis.call('SETBIT', cancelled, row, 1) end
  if result ~= '' or outcome ~= 'done' and outcome ~= 'cancelled' then
    redis.call('HSET', results, row, outcome .. ':' .. result)
  end
  if scans then redis.call('HSET', header, 'scan_note', result) end
  redis.call('HDEL', values, row)
  redis.call('HDEL', intents, row)
end

local closes = false -- whether this script settled the last row of the segment

local staging = false -- whether the rows are not committed yet: the commit counts them for the run

-- count adds the settled rows to the counters of segment and run, and closes a segment of which
-- every row is settled. With a scan's row, no more rows of the run are to come.
local function count()
  local n = 0
  for outcome, rows in pairs(tally) do
    if not scans and not staging then redis.call('HINCRBY', header, 'n:' .. outcome, rows) end
    n = n + rows
  end
  tally = {}
  if n == 0 or redis.call('HINCRBY', head, 'settled', n) < tonumber(redis.call('HGET', head, 'rows')) then return end
  closes = true
  clear() -- a cancel may have left something
  if scans then
    redis.call('HDEL', header, 'growing')
  elseif not staging then
    redis.call('HINCRBY', header, 'closed', 1)
  end
end

-- notWriter returns the answer to a caller that does not stage the rows of the run: {'missing'} if it
-- is another run, {'replaced'} if another one does or did, {'mismatch'} if the run is cancelled.
-- Otherwise it returns nil.
local function notWriter(nonce)
  local h = redis.call('HMGET', header, 'inc', 'deleting_at', 'segments', 'writer')
  if h[1] ~= incarnation or h[2] then return {'missing'} end
  if h[4] ~= nonce then return {'replaced'} end
  if h[3] then return {'mismatch'} end
end

-- control reads the control of the run of a segment, and reports whether the segment is committed.
local function control()
  local h = redis.call('HMGET', header, 'inc', 'flags', 'not_before', 'segments')
  flags, before = h[2], tonumber(h[3] or '0')
  return h[1] == incarnation and (scans or tonumber(number) < tonumber(h[4] or '0')) and
    redis.call('EXISTS', head) == 1
end

-- stopped reports whether only rows with an intent may begin for now.
local function stopped() return has(flags, 'p') or before > t end

local function intended(row) return redis.call('HEXISTS', intents, row) == 1 end

local earliest = -1 -- when the first of the rows that this script left open is due, in ms

-- leave leaves a row open that was released or in progress, with the value v, due at that
-- time. If the run is cancelled it settles the row, unless it has an intent, and returns
-- 'cancelled'.
local function leave(row, execution, v, due)
  free(row, execution)
  local intent = intended(row)
  if not intent and has(flags, 'c') then
    settle(row, 'cancelled', '')
    return 'cancelled'
  end
  if not v.damaged and (v.first > 0 or v.ended ~= '') then write(row, v) end
  local set
  if v.first == 0 and not v.damaged then
    set = first
  elseif v.stage == 'r' then
    set = intent and intended_ready or ready
  else
    set = intent and intended_check or check
  end
  redis.call('ZADD', set, text(due), row)
  if scans and due > t then
    redis.call('HSET', header, 'scan_note', v.note ~= '' and v.note or v.memo, 'scan_next', text(due))
  elseif scans then
    redis.call('HDEL', header, 'scan_note', 'scan_next')
  end
  if earliest < 0 or due < earliest then earliest = due end
  return 'written'
end

-- since returns when the row was released or has begun, by the set of these times; at most t.
local function since(row, set) return math.min(tonumber(redis.call('ZSCORE', set, row) or t), t) end

-- reopen makes a row due whose release or execution lapsed, or was given up by others. Of an
-- execution, change may change the value of the row, and returns for how many ms the row waits. One
-- that does not wait is due since its release or begin: Redis' clock may be ahead for a moment.
local function reopen(row, execution, change)
  if redis.call('GETBIT', settled, row) == 1 then return free(row, execution) end -- by a cancel
  local v, wait = read(row), 0
  local at = since(row, released)
  if begun(execution) then
    at = since(row, running)
    if v.first == 0 then v.first = at end
    wait = change(v)
  end
  if wait > 0 then at = t + wait end
  leave(row, execution, v, at)
end

-- receipt returns the answer of a script: {'ok', 1 if the run ended by this call, due, now, 1 if the
-- run is stopped, 1 if it is cancelled, answers}. due is when the first of the rows is due that
-- the script left open, in ms; -1 if it left none. It has the segment inspected by then.
local function receipt(answers)
  count()
  if earliest >= 0 then soon(earliest, {name}) end
  return {'ok', closes and conclude(entry) and 1 or 0, earliest, t, stopped() and 1 or 0,
    has(flags, 'c') and 1 or 0, answers}
end

-- each calls f with each argument from i on, which are rows, and returns its answers.
local function each(i, f)
  local answers = {}
  for at = i, #ARGV do answers[#answers + 1] = f(ARGV[at]) end
  return answers
end
