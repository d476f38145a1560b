-- ARGV: incarnation, then numbers of segments, each with 1 if it is staged once more, 0 if
-- Redis cannot lose it any more. Of the latter the blocks are removed.
local no = refused()
if no then return no end
local stay, kept, first = {}, {}, place('staged')
for i = 2, #ARGV, 2 do stay[ARGV[i]] = ARGV[i + 1] end
for number, from, past, at in string.gmatch(redis.call('HGET', scan, 'kept') or '', '(%d+),(%d+),(%d+),(%d+);') do
  if stay[number] ~= '0' then
    if stay[number] == '1' then at = text(now()) end
    kept[#kept + 1] = number .. ',' .. from .. ',' .. past .. ',' .. at .. ';'
    first = math.min(first, tonumber(from))
  end
end
if redis.call('EXISTS', scan) == 0 then return {'ok'} end -- the run was cancelled
allowWrites()
local gone = first - place('first')
if gone > 0 then redis.call('LTRIM', found, gone, -1) end
redis.call('HSET', scan, 'kept', table.concat(kept), 'first', text(first))
return {'ok'}
