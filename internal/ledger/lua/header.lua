-- Begins every script of a header, behind the names of its keys. ARGV[1] is the run's entry in the
-- lists: its id, a slash and its incarnation.
local entry, incarnation = ARGV[1], string.match(ARGV[1], '/(.*)$')

-- refused returns the answer to a caller whose incarnation is not the header's, or if a
-- number of the header cannot be read: {'malformed', field}. Otherwise it returns nil.
local function refused()
  local h = redis.call('HMGET', header, 'inc', 'not_before', 'staged', 'segments', 'rows', 'closed')
  if h[1] ~= incarnation then return {'missing'} end
  for i, field in ipairs({'not_before', 'staged', 'segments', 'rows', 'closed'}) do
    local always = i <= 2
    if not tonumber(h[i + 1]) and (always or h[i + 1]) then return {'malformed', field} end
  end
end

-- read returns the whole header as the answer of a script.
local function read(status) return {status, redis.call('HGETALL', header)} end

-- disown takes the run out of the children of its parent, which has that key. A mark has its place, so
-- that the others keep their numbers: a dot if the run never had rows, so that others may claim those
-- that it has claimed, and else a comma.
local function disown(parent)
  local mark = tonumber(redis.call('HGET', header, 'rows') or '0') > 0 and ',' or '.'
  local children = {}
  for child in string.gmatch(redis.call('HGET', parent, 'children') or '', '%S+') do
    if child .. '/' .. incarnation == entry then child = mark end
    children[#children + 1] = child
  end
  if #children > 0 then redis.call('HSET', parent, 'children', table.concat(children, ' ')) end
end

-- segments returns the names of the segments from one number up to another.
local function segments(first, past)
  local names = {}
  for number = first, past - 1 do names[#names + 1] = entry .. '/' .. text(number) end
  return names
end

local scanRow = entry .. '/' .. scan_segment -- the segment of the scan's row
