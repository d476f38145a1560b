-- identity returns the identity of this server: the beginnings of run_id and
-- master_replid; '' if the server does not report them. Each has 64 random bits, and both fit
-- Redis' compact form of the head.
local function identity()
  local function field(section, name)
    local info = redis.pcall('INFO', section)
    return type(info) == 'string' and string.match(info, name .. ':(' .. string.rep('%w', 16) .. ')') or ''
  end
  local run, replication = field('server', 'run_id'), field('replication', 'master_replid')
  if run == '' or replication == '' then return '' end
  return run .. '/' .. replication
end

