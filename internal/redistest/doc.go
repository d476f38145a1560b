// Package redistest provides each test with a Redis of its own.
//
// Without configuration that is a miniredis inside of the process, so that tests need only
// Go. With ORGOPS_TEST_REDIS_URL set to a redis:// URL it is a database of that server, which
// is locked for the test and emptied before and after: tests of several packages run at the
// same time, each in its own process. Start such a server with enough of them: redis-server
// --databases 64. With a redis-cluster:// URL it is the whole Cluster, which has one database:
// one test at a time uses it. miniredis has no eviction, no persistence, no limit of Lua's
// unpack and no real round trips.
//
// [Start], [StartSentinel] and [StartCluster] start processes that a test can kill.
//
// Files, each uses those below it:
//
//	around.go          a hook around commands, and one that counts round trips
//	server_cluster.go  a Cluster of the test's own
//	server.go          a redis-server or Sentinel of the test's own
//	bubble.go          a database inside of a bubble of testing/synctest
//	redistest.go       New, Keys, URL, Mini: the database of a test
//	real.go            databases of a server or a Cluster, and their locks
//	database.go        a database, its clients and keys; a miniredis
//	pipe.go            clients of a miniredis without sockets
//	size.go            which tests run, and how many at a time
//	race.go, norace.go: whether the race detector is there
//	process_linux.go, process_other.go: processes that end with the test
package redistest
