return {text(now()), redis.call('HGETALL', pace)}
