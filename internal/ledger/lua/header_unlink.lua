-- ARGV: incarnation. Removes a header that is to be deleted.
if present() and redis.call('HEXISTS', header, 'deleting_at') == 1 then
  redis.call('UNLINK', header, closed, sums)
end
return {'ok'}
