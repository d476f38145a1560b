-- Answers {'ok', identity of this server}. Writes nothing.
return {'ok', identity()}
