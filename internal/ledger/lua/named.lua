-- Follows segment.lua. The index of names has the subjects of rows: in names, all with the score 0, a
-- member name\1id\1about of each, whose about begins with the time of the entry; and in ids the names
-- by id, as \1id\2name one behind the other, some 15 in a field of a million.

local function fieldOf(id) return string.sub(redis.sha1hex(id), 1, 4) end

-- nameIn returns the name of an id in a field's text, and where its entry begins and ends.
local function nameIn(all, id)
  local from, to = string.find(all, '\1' .. id .. '\2', 1, true)
  if not from then return end
  local last = (string.find(all, '\1', to, true) or #all + 1) - 1
  return string.sub(all, to + 1, last), from, last
end

-- setName replaces the name of an id; nil removes it.
local function setName(id, name)
  local field = fieldOf(id)
  local all = redis.call('HGET', ids, field) or ''
  local former, from, last = nameIn(all, id)
  if former == name then return end
  if former then all = string.sub(all, 1, from - 1) .. string.sub(all, last + 1) end
  if name then all = all .. '\1' .. id .. '\2' .. name end
  if all == '' then redis.call('HDEL', ids, field) else redis.call('HSET', ids, field, all) end
end

-- forgetOldest removes the oldest of some subjects.
local function forgetOldest()
  local oldest, oldestAt, oldestID
  for _, member in ipairs(redis.call('ZRANDMEMBER', names, 8)) do
    local id, at = string.match(member, '^[^\1]*\1([^\1]*)\1(.*)$')
    if not oldest or at < oldestAt then oldest, oldestAt, oldestID = member, at, id end
  end
  redis.call('ZREM', names, oldest)
  setName(oldestID, nil)
end

-- learn stores a subject; name is '' for one that is gone, whose about is the time alone. An older
-- time than that of the entry changes nothing: an execution that the ledger has taken for dead may end
-- after its successor. Of two in one second the later call counts. The index is an aid to people: at
-- maxmemory it stays as it is, since a script that has written nothing yet may not add to it then.
local function learn(id, name, about, most)
  local former = nameIn(redis.call('HGET', ids, fieldOf(id)) or '', id)
  local old
  if former then
    local first = former .. '\1' .. id
    old = redis.call('ZRANGEBYLEX', names, '[' .. first .. '\1', '(' .. first .. '\2', 'LIMIT', 0, 1)[1]
  end
  if old then
    local from = #former + #id + 3
    if string.sub(old, from, from + 3) > string.sub(about, 1, 4) then return end
  end
  if name ~= '' then
    local member = name .. '\1' .. id .. '\1' .. about
    if old == member then return end
    local added = redis.pcall('ZADD', names, '0', member)
    if type(added) == 'table' and added.err then return end
  end
  if old then redis.call('ZREM', names, old) end
  setName(id, name ~= '' and name or nil)
  while redis.call('ZCARD', names) > most do forgetOldest() end
end
