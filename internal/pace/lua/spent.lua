-- ARGV[1] is of a request: see argument in limiter.go. Answers 1 if the API's bucket has no permit
-- left, as far as the fleet knows.
local ask, at = cjson.decode(ARGV[1]), now()
local api = ask.buckets[2]
local r = read({}, {api})
read_bucket(api, at, r[1], r[2])
return math.max(api.tat, at + ask.missing) > at + (ask.holds - 1) * api.interval and 1 or 0
