-- Times that lie ahead. Redis' clock may step back, and a failover may lead to a replica whose
-- clock is behind, so each is bounded when it is read. It is written back, or it would move along
-- with the clock; a Redis that refuses that bounds it the next time.
local function bounded(field, value, most)
  if value > most then redis.pcall('HSET', pace, field, text(most)) end
  return math.min(value, most)
end

-- Returns the end of the pause that a field has.
local function read_pause(at, field, stored)
  return bounded(field, tonumber(stored or '0'), at + longest_pause)
end

local function store_bucket(bucket)
  redis.call('HSET', pace, bucket.field, text(bucket.tat), bucket.field .. '_interval', text(bucket.interval))
end

-- Sets the arrival time of a bucket from which there is no permit before due: it is empty at the
-- most. A time that was stored with another interval, by a worker whose settings differ or before they were
-- changed, is converted, so that as many permits are missing: they come at the present rate.
local function read_bucket(bucket, due, tat, interval)
  tat, interval = tonumber(tat or '0'), tonumber(interval or '0')
  local ahead = tat - due
  if ahead > 0 and interval > 0 and interval ~= bucket.interval then
    bucket.tat = due + math.floor(math.min(ahead / interval, bucket.burst) * bucket.interval)
    redis.pcall('HSET', pace, bucket.field, text(bucket.tat), bucket.field .. '_interval', text(bucket.interval))
    return
  end
  bucket.tat = bounded(bucket.field, tat, due + bucket.interval * bucket.burst)
end

-- Returns the fields of the tenant's hash, and behind them two of each bucket.
local function read(fields, buckets)
  for _, bucket in ipairs(buckets) do
    fields[#fields + 1] = bucket.field
    fields[#fields + 1] = bucket.field .. '_interval'
  end
  return redis.call('HMGET', pace, unpack(fields))
end

-- Empties a bucket until due.
local function drain(bucket, due)
  bucket.tat = gcra_drain(bucket.interval, bucket.burst, due, bucket.tat)
  store_bucket(bucket)
end

-- What the API says of its bucket only ever lowers what is believed of it: that fills by itself
-- at the known rate. missing is by how much it was last seen to be short of full.
local function lower(bucket, missing, at)
  if at + missing > bucket.tat then
    bucket.tat = at + missing
    store_bucket(bucket)
  end
end
