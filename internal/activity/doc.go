// Package activity is the activity of a tenant: a list of actions with their time, user, run or
// domain, and result. It has actions of people, and changes that workers observe, such
// as blocks and sweeps; it does not have rows, of which there are millions.
//
// A tenant's list is a stream in Redis, orgops:v3:{tenant:<name>}:activity, with the times of
// Redis: the newest 10,000 entries, for 90 days. An entry is recorded once, after the action, which
// must succeed in a Redis that is full: an entry that is not stored is a line in the log.
package activity
