-- ARGV: incarnation. Removes the header of a run in the trash. Answers {'ok', number of
-- keys}.
if not present() then return {'ok', 0} end
return {'ok', redis.call('UNLINK', header, closed, sums)}
