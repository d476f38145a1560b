-- ARGV: operation, the time of a trial. The API has answered the request of the trial, and not by another 429:
-- the pauses that it tried are over. Others, which have begun since, are not.
for _, of in ipairs({'', ':' .. ARGV[1]}) do
  if redis.call('HGET', pace, 'tried' .. of) == ARGV[2] then
    redis.call('HDEL', pace, 'tried' .. of, of == '' and 'paused_until' or 'paused' .. of, 'refused_since' .. of)
  end
end
