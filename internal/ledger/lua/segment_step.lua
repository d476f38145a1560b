-- KEYS: as of segment_append.lua, of the scan's own segment. ARGV: nonce, number of the step, rows of
-- the run, the scan's row, progress, 1 if the step is the last. Makes the step whose rows are appended.
-- Answers with a status.
if not control() then return {'missing'} end

local function answer(status) return receipt({status}) end

if not owned(redis.call('HGET', executions, '0'), ARGV[1]) then return answer('superseded') end
local h = redis.call('HMGET', header, 'scan_step', 'rows')
if tonumber(h[1]) == ARGV[2] + 1 then return answer('written') end -- its answer was lost
if h[1] ~= ARGV[2] or h[2] ~= ARGV[3] then return {'raced'} end
redis.call('HSET', chunks, '0', ARGV[4])
redis.call('HSET', header, 'scan', ARGV[5], 'scan_step', text(h[1] + 1))
redis.call('HDEL', header, 'scan_note', 'scan_next')
if ARGV[6] == '1' then
  redis.call('HSET', header, 'scan_ended', '1')
  redis.call('UNLINK', KEYS[#KEYS])
end
return answer('written')
