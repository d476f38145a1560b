-- ARGV: sessions. Answers {'ok', those that are dead}: none where no session was renewed
-- recently, since then Redis itself was away.
local dead = {}
local newest = score(seen, -1)
if not newest or math.abs(t - newest) > gap_ms then return {'ok', dead} end
for _, session in ipairs(ARGV) do
  if silence(session) > dead_ms then dead[#dead + 1] = session end
end
return {'ok', dead}
