-- ARGV: entry, number of the first block to read, the most blocks, and the size from which on no
-- more are read. Answers {'ok', now, header, numbers of the scan, blocks}; 'passed' if the first
-- block is not in the list any more. Writes nothing.
local no = refused()
if no then return no end
if redis.call('HEXISTS', header, 'deleting_at') == 1 then return {'missing'} end
local from, first, blocks, size = tonumber(ARGV[2]), place('first'), {}, 0
local past = math.min(place('past'), from + tonumber(ARGV[3]))
if from < past and from < first then return {'passed'} end
for block = from, past - 1 do
  local content = redis.call('LINDEX', found, block - first)
  blocks[#blocks + 1] = content
  size = size + #content
  if size >= tonumber(ARGV[4]) then break end
end
return {'ok', now(), redis.call('HGETALL', header), redis.call('HMGET', scan, 'first', 'past', 'rows', 'since'), blocks}
