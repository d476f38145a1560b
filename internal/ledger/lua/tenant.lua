-- Begins every script of a tenant's lists. KEYS are those of tenantKeys.
local runs, open, ended, trash, due, scratch = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]

-- allowWrites lets the writes of this script pass at maxmemory, as in header.lua.
local function allowWrites() redis.call('DEL', scratch) end

-- taken is the due time of a segment that a dispatcher inspects at the moment: later
-- than any time, so that a hint lowers it.
local taken = '9000000000000000'
