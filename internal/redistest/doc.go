// Package redistest gives each test a Redis of its own.
//
// Without configuration that is a miniredis inside the process, so that the
// tests need nothing but Go. With ORGOPS_TEST_REDIS_URL set to a plain
// redis:// URL it is a database of that server, chosen among all that the
// server has, locked for the test, emptied before and after: tests of several
// packages run at the same time, each in its own process. Start such a server
// with room for them: redis-server --databases 64. With a redis-cluster:// URL
// it is that whole Cluster, which has one database: one test at a time has it.
//
// What miniredis does not show (eviction, persistence, the limit of Lua's
// unpack, real round trips) is why the same tests run on both.
package redistest
