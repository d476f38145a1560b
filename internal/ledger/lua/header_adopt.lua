-- ARGV: incarnation, version, flags. Takes over the control of a segment that the header
-- does not know, since a Redis has lost it. If the header's was changed since, that change
-- applies to it too. Answers the header.
local no = refused()
if no then return no end
local at = tonumber(ARGV[2])
if unknown(at) then
  allowWrites()
  write(combined(at, ARGV[3]), at)
end
return read('ok')
