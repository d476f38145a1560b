-- ARGV: incarnation. Removes the header of a run in the trash. Answers {'ok', number of
-- keys}.
if redis.call('HGET', header, 'inc') ~= ARGV[1] then return {'ok', 0} end
return {'ok', redis.call('UNLINK', header, closed, sums, scan, found, seen)}
