-- ARGV: retention, generation, step, rows stored before it, number of rows that it
-- found, what is told of the walk, where it goes on, name of a mark, number of chunks,
-- then of each chunk its first row and the chunk, then rows and the mark of each.
-- Makes one step of a walk, whole, if it is the next one: answers '', or what stands
-- against it.
local r = redis.call('HMGET', run, 'walk_step', 'sealed', 'stored', 'marks')
if not r[1] or missing(ARGV[2]) then return {'missing'} end
local word = against(ARGV[2])
if word ~= '' then return {'ok', word} end
local before = tonumber(ARGV[4])
if r[2] == '1' or tonumber(r[1]) ~= tonumber(ARGV[3]) or tonumber(r[3]) ~= before then return {'ok', 'stale'} end

local at = 10
for i = 1, tonumber(ARGV[9]) do
  redis.call('HSET', rows, ARGV[at], ARGV[at + 1])
  at = at + 2
end
local marks = r[4] or ''
if at < #ARGV and not string.find(' ' .. marks .. ' ', ' ' .. ARGV[8] .. ' ', 1, true) then
  redis.call('HSET', run, 'marks', marks == '' and ARGV[8] or marks .. ' ' .. ARGV[8])
end
for i = at, #ARGV, 2 do redis.call('HSET', kept, ARGV[i] .. ':' .. ARGV[8], ARGV[i + 1]) end

redis.call('HSET', run, 'walk_step', tonumber(ARGV[3]) + 1, 'walk_enqueued', before, 'walk_told', ARGV[6],
  'stored', before + tonumber(ARGV[5]), 'stored_at', now())
redis.call('HDEL', run, 'walk_note', 'walk_lost_at')
redis.call('SET', cursor, ARGV[7])
return {'ok', ''}
