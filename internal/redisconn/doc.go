// Package redisconn returns a client for a Redis URL, configured for asynq and the rest of
// orgops.
//
//	redis://[user[:password]@]host[:6379][/database]
//	rediss://…                                            the same over TLS
//	redis-sentinel://[user[:password]@]host[:26379],…/master[/database]
//	redis-cluster://[user[:password]@]host[:6379],…
//	unix://[user[:password]@]/path                        a Unix socket, database 0
//
// rediss-sentinel:// and rediss-cluster:// are the last two over TLS. User and password may be
// percent-encoded. They are Redis' own; Sentinels are queried without. asynq's own parser
// loses the user's name, and for Sentinel the database: give its Server a client of
// [ForServer], and its other constructors one of [Open], instead.
//
// No error, and no result of [Mask], contains the password.
//
// # Which type of client a package takes
//
// A package that only sends commands takes a [redis.Cmdable]. It stands for a client, and not for a
// pipeline. A [redis.UniversalClient] is for packages that make clients, and for those that give
// them to asynq. Each package whose types reach a client of go-redis takes two seconds longer to
// compile: since 9.23 a client has a weak.Pointer to itself, of which the compiler makes some 1,500
// functions in each of these packages anew. [redis.PubSub], [redis.Tx] and [redis.Options] reach a
// client, and so do asynq's Client, Inspector, Server and Task.
//
// Files, each uses those below it:
//
//	batch.go   commands of many calls in one pipeline
//	ready.go   checks of a Redis: answer, version, rights
//	flags.go   the flags of commands that connect
//	conn.go    ForServer, Open, Subscribe, Masters
//	polls.go   a hook of ForServer: one poll a second after a failed dequeue
//	retry.go   a hook for producers: commands wait while Redis is unavailable
//	url.go     parses and masks URLs
package redisconn
