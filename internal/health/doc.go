// Package health tests the requirements of a worker: Redis, the tenants' credentials and APIs,
// resolvers, and the machine. A [Finding] is the result of a test.
//
// [Probes] answers /healthz and /readyz. What /readyz checks ([OfWorker]) is cheap: it takes
// no permit and fetches no token. "worker doctor" tests the same things once and in detail
// ([Redis], [Tenant.Test], [Files], [Limits.Test]), and says how to fix each fault. Functions that
// send requests are separate from those that evaluate the answers.
//
// The files, each of which uses those below it:
//
//	probes.go     /healthz and /readyz
//	worker.go     the checks of a running worker
//	readiness.go  runs checks side by side, once for all callers
//	tenant.go     doctor: token, scopes and API of a tenant
//	redis.go      doctor: version, settings, clock and rights of a Redis
//	machine.go    doctor: files, variables and limits; openfiles_unix.go, openfiles_other.go
//	network.go    the way to name servers: probes it while a worker runs, and evaluates it
//	resolvers.go  evaluates resolvers: whether they can prove a domain
//	poll.go       a slow function, called once for all callers
//	finding.go    the result of a test
package health
