-- now returns Redis' time in milliseconds.
local function now()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

-- text returns a whole number in decimal digits. Lua itself writes 1.7e+15.
local function text(n) return string.format('%.0f', n) end

-- has reports whether a control's flags contain the letter.
local function has(flags, letter) return string.find(flags or '', letter, 1, true) ~= nil end
