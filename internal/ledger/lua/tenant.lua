-- Begins every script of a tenant's lists. KEYS are those of tenantKeys.
local runs, open, ended, trash, due, scratch = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]

-- allowWrites lets the writes of this script pass at maxmemory, as in header.lua.
local function allowWrites() redis.call('DEL', scratch) end

-- discarded reports whether a run is in the trash. It is never listed again.
local function discarded(run) return redis.call('HEXISTS', trash, run) == 1 end
