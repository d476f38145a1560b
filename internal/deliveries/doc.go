// Package deliveries delivers events to the webhook receivers of a tenant. Each event is
// one asynq task per receiver, in a queue of the tenant's own, and is tried for three days.
//
// A delivery may be made twice: its answer may be lost, or its worker may die before the
// result is stored. The receiver identifies it by its webhook-id, which is the event's.
//
// The events that wait for one receiver are bounded. If there are more, the oldest are
// dropped, counted and logged.
package deliveries
