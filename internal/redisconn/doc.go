// Package redisconn turns one Redis URL into one client, as asynq and the rest
// of orgops need it.
//
//	redis://[user[:password]@]host[:6379][/database]
//	rediss://…                                            the same over TLS
//	redis-sentinel://[user[:password]@]host[:26379],…/master[/database]
//	redis-cluster://[user[:password]@]host[:6379],…
//
// rediss-sentinel:// and rediss-cluster:// are the last two over TLS. User and
// password may be percent-encoded; they are Redis's own, a Sentinel is asked
// without. asynq has a parser of its own, which loses the user's name, and with
// Sentinel the database: give its Server a client of [ForServer], and its other
// constructors one of [Open], instead.
//
// asynq dequeues again at once after an error. A client of ForServer therefore polls a queue
// only once a second while Redis refuses its dequeues.
//
// No error, and nothing that [Mask] returns, holds the password.
package redisconn
