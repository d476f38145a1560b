// Package tasks is what the work is: the task types with their payloads,
// the handlers that carry them out, the one table that turns an error into
// an outcome, and the producer that enqueues rows.
//
// A task is delivered at least once, so each handler's file begins with why
// a second run of it does no harm. Handlers neither retry nor log: they
// return a [Result] or an error, and one middleware ([Mux]) asks the ledger
// first, judges the error by [Judge], settles the rows, logs and measures.
//
// The package reaches the ledger, the tenant's pace and the metrics through
// the interfaces of deps.go; of this module it imports apiclient and
// dnscheck alone.
package tasks
