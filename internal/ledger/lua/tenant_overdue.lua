-- ARGV: the most segments, and the number of segments to skip. Answers {'ok', segments that
-- are to be inspected now and since when in ms, alternating, the longest due first among
-- those that were due when they were stored, then among the others; and now}.
local n, skip = tonumber(ARGV[1]), tonumber(ARGV[2])
local all = {}
local function add(from, to, behind)
  local found = redis.call('ZRANGEBYSCORE', due, from, to, 'WITHSCORES', 'LIMIT', skip, n)
  for i = 1, #found, 2 do
    all[#all + 1] = found[i]
    all[#all + 1] = tonumber(found[i + 1]) + behind
  end
end
add('-inf', '(0', at_once)
add('0', text(t), 0)
return {'ok', all, t}
