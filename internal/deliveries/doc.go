// Package deliveries delivers events to the webhook receivers of a tenant. Each event is
// one asynq task per receiver, in a queue of its own, and is tried for three days.
//
// A delivery may be made twice: its answer may be lost, or its worker may die before the
// result is stored. The receiver identifies it by its webhook-id, which is the event's.
//
// The events that wait for one receiver are bounded. If there are more, the oldest are
// dropped, counted and logged.
//
// The files, each of which uses those below it:
//
//	notifier.go     enqueues a delivery to each receiver that wants an event
//	handler.go      executes a delivery
//	backlog.go      the deliveries that wait for each receiver
//	state.go        the state of each receiver; sends given-up deliveries again
//	tally.go        counts for lines of the log, one a minute
//	config.go       settings, those of asynq's server too, and the interfaces of the other parts
//	task.go         the task of a delivery, and its payload
//	verdict.go      the outcome of an execution
//	delay.go        the time to the next attempt
package deliveries
