-- Begins every script. KEYS[1] is the tenant's hash. Times are whole microseconds
-- of Redis's clock; they have 16 digits, of which Lua's own conversion would keep 14.
local pace = KEYS[1]
local function now()
  local t = redis.call('TIME')
  return t[1] * 1000000 + t[2]
end
local function text(n) return string.format('%.0f', n) end

-- A block is stored as <time of its next probe>:<reason>.
local function read_block(value)
  local colon = string.find(value, ':', 1, true)
  return tonumber(string.sub(value, 1, colon - 1)), string.sub(value, colon + 1)
end

-- Permits given are counted in twelve slots of five seconds, each stored as
-- <number of the slot since 1970>:<permits>.
local function count_use(at, by)
  local slot = math.floor(at / 5000000)
  local field = 'used:' .. (slot % 12)
  local used = 0
  local there = redis.call('HGET', pace, field)
  if there and string.match(there, '^%d+') == text(slot) then
    used = tonumber(string.match(there, ':(%d+)$'))
  end
  if used + by >= 0 then redis.call('HSET', pace, field, text(slot) .. ':' .. text(used + by)) end
end
