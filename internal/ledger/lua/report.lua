-- Follows segment.lua in the script that releases rows, whose answer describes the whole segment.

-- report returns when the segment is to be inspected next, in ms, and the phases of its open rows.
--
-- The time is 0 for now, -1 if nothing becomes due by itself. A segment with rows in progress is
-- inspected every minute, so that one that is inspected late tells a jump of Redis' clock from an
-- execution that takes long. The phases are numbers of rows:
-- queued, waiting at check, due of these, waiting at ready, due of these, released, running, and
-- never begun but due later.
local function report()
  local h = redis.call('HMGET', head, 'rows', 'next', 'settled')
  local all, done, stop, at = tonumber(h[1]), tonumber(h[3]), stopped(), -1
  local function earlier(ms)
    if at < 0 or ms < at then at = ms end
  end
  -- inspect counts the rows of a set, which are due after ms, or limit ms ahead since
  -- Redis' clock was: then they are due now.
  local function inspect(set, after, limit)
    local lowest = score(set, 0)
    if not lowest then return 0 end
    earlier(score(set, -1) > t + limit and 0 or lowest + after)
    return redis.call('ZCARD', set)
  end
  -- waiting counts the rows of a set of waiting rows, and those that are due.
  local function waiting(set, releasable)
    if not releasable then return redis.call('ZCARD', set), 0 end
    local n = inspect(set, 0, ahead_ms)
    if n == 0 then return 0, 0 end
    return n, redis.call('ZCOUNT', set, '-inf', text(t))
  end

  local nr, nb = inspect(released, release_ms, release_ms), inspect(running, execution_ms, execution_ms)
  if nb > 0 then earlier(t + inspect_ms) end
  if not stop then inspect(first, 0, due_ms) end
  local later = redis.call('ZCOUNT', first, '(' .. text(t), text(t + due_ms))
  local nc, dc = waiting(check, not stop)
  local ic, idc = waiting(intended_check, true)
  local ny, dy = waiting(ready, not stop)
  local iy, idy = waiting(intended_ready, true)
  if not stop and tonumber(h[2]) < all then at = 0 end
  if before > t then earlier(before) end
  if done >= all then
    at = -1
  elseif at > 0 and at <= t then
    at = 0
  end
  local queued = math.max(all - done - nc - ic - ny - iy - nr - nb - later, 0)
  return at, {queued, nc + ic, dc + idc, ny + iy, dy + idy, nr, nb, later}
end
