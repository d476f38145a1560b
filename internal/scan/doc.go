// Package scan finds the rows of runs whose rows are not submitted: it searches the tenant's
// organizations and their discovery domains for the pending ones of a run that verifies,
// and for those that a sweep checks, and the organizations for those that have a client which is
// to be removed everywhere.
//
// A scan is a row of its run, whose content is the position of the scan. [Handlers] has the
// handlers of such rows: the engine counts attempts, blocks operations, and has one execution at a
// time. An execution makes steps for some seconds, each of up to fifty requests, and stores each
// with [engine.Execution.AddStep]. A step that is repeated, since a worker was killed or Redis has
// lost it, adds the domains that the run does not have yet.
//
// A step of a run that is paused, cancelled or deleted sends no request from a second later on;
// the answers received by then are stored.
//
// Organizations whose domains cannot be read are put off, and tried again at the end of the scan.
// Those that still cannot be read are counted with the reason of the first. A scan that
// cannot continue ends early, with the reason: the rows that it found stay.
//
// # Files
//
// Each file uses those below it:
//
//	handler.go   executes the row of a scan: one step after the other
//	clients.go   searches for the organizations of a client
//	read.go      the requests of a step
//	position.go  where a step begins and ends
//	pending.go   searches for pending domains
//	swept.go     searches for the domains of a sweep
//	request.go   the row of a listed record
package scan
