-- Begins every script, behind the names of its keys and the constants of scripts.go. t is Redis'
-- time in milliseconds.
local time = redis.call('TIME')
local t = time[1] * 1000 + math.floor(time[2] / 1000)

-- text returns a whole number in decimal digits. Lua itself writes 1.7e+15.
local function text(n) return string.format('%.0f', n) end

-- has reports whether a control's flags contain the letter.
local function has(flags, letter) return string.find(flags or '', letter, 1, true) ~= nil end

-- allowWrites lets the writes of this script pass at maxmemory: there Redis refuses a
-- script's first write if it may need memory, and no later one. DEL never needs any.
local function allowWrites() redis.call('DEL', scratch) end

-- score returns the score at a place of a sorted set, or nil: 0 is the lowest, -1 the highest.
local function score(set, place) return tonumber(redis.call('ZRANGE', set, place, place, 'WITHSCORES')[2]) end
