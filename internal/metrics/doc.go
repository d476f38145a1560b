// Package metrics measures a worker for Prometheus: the executions, requests and queries that
// its other parts report to a [Metrics], and the queues, runs and tenants that are read from
// Redis with each scrape ([Metrics.WatchRedis]). Methods take basic types, so that no reporting
// package depends on this one.
//
// The files, each of which uses those below it:
//
//	metrics.go    the executions, requests and queries of this worker
//	collector.go  exposes the readings of the sources
//	queues.go, runs.go, tenants.go: the sources
//	source.go     a source of metrics in Redis, and its readings
package metrics
