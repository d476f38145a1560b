-- ARGV: incarnation, version, flags, not before in ms. Takes over the control of a
-- segment that the header does not know, since a Redis has lost it. If the header's was
-- changed since, that change applies to it too. Answers the header.
local no = refused()
if no then return no end
local at = tonumber(ARGV[2])
if unknown(at) then
  allowWrites()
  local flags, before = combined(at, ARGV[3], ARGV[4])
  write(flags, before, at)
end
return read('ok')
