-- ARGV: incarnation, number of the first block to read, number behind the last, the most
-- blocks, and the size from which on no more are read. Answers {'ok', now, header, numbers
-- of the scan, blocks}; 'passed' if the first is not in the list any more. Writes nothing.
local no = refused()
if no then return no end
if redis.call('HEXISTS', header, 'deleting_at') == 1 then return {'missing'} end
local from, first, blocks, size = tonumber(ARGV[2]), place('first'), {}, 0
local past = math.min(tonumber(ARGV[3]), place('past'), from + tonumber(ARGV[4]))
if from < past and from < first then return {'passed'} end
for block = from, past - 1 do
  local content = redis.call('LINDEX', found, block - first)
  if not content then break end
  blocks[#blocks + 1] = content
  size = size + #content
  if size >= tonumber(ARGV[5]) then break end
end
local numbers = redis.call('HMGET', scan, 'staged', 'past', 'cut', 'rows', 'since', 'kept')
return {'ok', now(), redis.call('HGETALL', header), numbers, blocks}
