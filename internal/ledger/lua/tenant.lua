-- Begins every script of a tenant's lists, behind the names of its keys.

-- allowWrites lets the writes of this script pass at maxmemory, as in header.lua.
local function allowWrites() redis.call('DEL', scratch) end
