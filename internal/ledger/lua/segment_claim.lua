-- KEYS: behind the others, the header of a child of the run. ARGV: incarnation of the child, its number
-- among the children of the run, then for each row: row, and the number of the child that may have
-- claimed it before, or 0. Has the child claim the settled rows that none has claimed but that one, and
-- stores how many rows it has claimed. Answers {'ok', numbers}: that of the child that has claimed it,
-- for each row.
if not control() then return {'missing'} end
local child = KEYS[#KEYS]
local h = redis.call('HMGET', child, 'inc', 'deleting_at', 'flags', 'segments')
if h[1] ~= ARGV[1] or h[2] then return {'missing'} end
if h[4] or has(h[3], 'c') then return {'ended'} end -- no rows are added to it any more
local number, done, stored = tonumber(ARGV[2]), redis.call('GET', settled), redis.call('GET', claims) or ''
local bytes = string.char(math.floor(number / 256), number % 256)
local answers, claimed = {}, 0
for i = 3, #ARGV, 2 do
  local row, former = ARGV[i], tonumber(ARGV[i + 1])
  local by = claim(stored, tonumber(row))
  if by ~= number and by == former and bit(done, tonumber(row)) then
    redis.call('SETRANGE', claims, text(2 * row), bytes)
    by, claimed = number, claimed + 1
  end
  answers[#answers + 1] = by
end
if claimed > 0 then redis.call('HINCRBY', child, 'claimed', claimed) end
return {'ok', answers}
