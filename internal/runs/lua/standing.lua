-- ARGV: retention, kind or nothing, generation, then the rows. Answers a string of 0
-- and 1, what stands against a task of that generation or '' and, of a single row where
-- a kind is given, its marks but for the evidence: name, value, name, value.
local r = redis.call('HMGET', run, 'kind', 'sealed', 'total', 'marks')
if missing(ARGV[3]) then return {'missing'} end
local kind = ARGV[2]
if kind ~= '' then
  if r[1] ~= kind then return {'mismatch', 'kind', r[1]} end
  for i = 4, #ARGV do
    if r[2] == '1' and tonumber(ARGV[i]) >= tonumber(r[3]) then return {'mismatch', 'item', ARGV[i]} end
  end
end
local bits = {}
for i = 4, #ARGV do bits[i - 3] = redis.call('GETBIT', settled, ARGV[i]) end
local marks = {}
if kind ~= '' and #ARGV == 4 then
  for name in string.gmatch(r[4] or '', '%S+') do
    local value = name ~= 'evidence' and redis.call('HGET', kept, ARGV[4] .. ':' .. name)
    if value then
      marks[#marks + 1] = name
      marks[#marks + 1] = value
    end
  end
  local intent = redis.call('HGET', intents, ARGV[4])
  if intent then
    local colon = string.find(intent, ':', 1, true)
    marks[#marks + 1] = string.sub(intent, 1, colon - 1)
    marks[#marks + 1] = string.sub(intent, colon + 1)
  end
end
-- A concat of one number is a number in some interpreters, and then no string.
return {'ok', tostring(table.concat(bits)), against(ARGV[3]), marks}
