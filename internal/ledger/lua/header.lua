-- Begins every script of a header. KEYS are those of headerKeys. ARGV[1] is the
-- incarnation.
local header, closed, sums, scan, found, scratch, seen = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7]

-- allowWrites lets the writes of this script pass at maxmemory: there Redis refuses a
-- script's first write if it may need memory, and no later one. DEL never needs any.
local function allowWrites() redis.call('DEL', scratch) end

-- refused returns the answer to a caller whose incarnation is not the header's, or if a
-- number of the header cannot be read: {'malformed', field}. Otherwise it returns nil.
local function refused()
  local h = redis.call('HMGET', header, 'inc', 'v', 'not_before', 'reserved', 'base', 'segments', 'rows')
  if h[1] ~= ARGV[1] then return {'missing'} end
  for i, field in ipairs({'v', 'not_before', 'reserved', 'base', 'segments', 'rows'}) do
    local always = i <= 3
    if not tonumber(h[i + 1]) and (always or h[i + 1]) then return {'malformed', field} end
  end
end

-- read returns the whole header as the answer of a script.
local function read(status) return {status, redis.call('HGETALL', header)} end

-- version returns a version that is higher than the header's and than floor. It is the
-- time in microseconds, so that a Redis that has lost its last writes does not issue a
-- version twice; hardly ever, if its clock has gone back.
local function version(floor)
  local t = redis.call('TIME')
  local own = tonumber(redis.call('HGET', header, 'v') or '0')
  return math.max(t[1] * 1000000 + t[2], math.max(own, floor) + 1 + t[2] % 1000)
end

-- unknown reports whether the header does not know of a segment's control of that version:
-- a Redis has lost it here. Versions that the present one replaced are base and below.
local function unknown(at)
  local h = redis.call('HMGET', header, 'v', 'base')
  local own = tonumber(h[1])
  return at > own or at < own and at > tonumber(h[2] or h[1])
end

-- combined returns the flags of a segment's control that the header does not know, with the
-- change that the header's present one made to the one that it replaced.
local function combined(at, flags)
  local h = redis.call('HMGET', header, 'v', 'flags', 'was')
  if at > tonumber(h[1]) or not h[3] then return flags end
  for letter in string.gmatch(h[2] or '', '.') do
    if not has(h[3], letter) and not has(flags, letter) then flags = flags .. letter end
  end
  for letter in string.gmatch(h[3], '.') do
    if not has(h[2], letter) then flags = string.gsub(flags, letter, '') end
  end
  return flags
end

-- write stores a control of a version above those of the header and of a segment.
local function write(flags, at)
  local h = redis.call('HMGET', header, 'v', 'flags')
  redis.call('HSET', header, 'flags', flags, 'v', text(version(at)),
    'base', text(math.max(tonumber(h[1]), at)), 'was', h[2] or '')
  if has(flags, 'c') then
    redis.call('HSETNX', header, 'cancelled_at', text(now()))
    redis.call('HSET', header, 'sealed', '1') -- it takes no more rows
    redis.call('UNLINK', scan, found, seen)
  end
end

-- countClosed returns the number of closed segments among the first n. Others are closed that
-- the header does not know any more, since Redis has lost their commit.
local function countClosed(n)
  local bytes = math.floor(n / 8)
  local count = bytes > 0 and redis.call('BITCOUNT', closed, 0, bytes - 1) or 0
  for number = bytes * 8, n - 1 do count = count + redis.call('GETBIT', closed, number) end
  return count
end

-- The rows that a scan found are a list of blocks, which are numbered from 0 on: those
-- before staged are committed, and those before past belong to a step that was made. The
-- hash scan has these numbers, and first, that of the list's first block.

-- place returns a number of the scan; 0 if there is none.
local function place(name) return tonumber(redis.call('HGET', scan, name) or '0') end

-- conclude ends the run if no more segments are to come and every one is closed. It
-- reports whether this call did.
local function conclude()
  local h = redis.call('HMGET', header, 'segments', 'ended_at', 'sealed')
  if not h[1] or not h[3] or h[2] then return false end
  if countClosed(tonumber(h[1])) < tonumber(h[1]) then return false end
  redis.call('HSET', header, 'ended_at', text(now()))
  return true
end
