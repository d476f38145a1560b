package tasks

// Outcome is the result of a row, or of one execution of it.
type Outcome string

// Outcomes that settle a row. docs/reference/outcomes.md has their comments.
const (
	Done      Outcome = "done"      // it is now as the row asked for
	Unchanged Outcome = "unchanged" // it was so before
	Failed    Outcome = "failed"    // every attempt failed
	Refused   Outcome = "refused"   // the API refused it, or the proof did
	Invalid   Outcome = "invalid"   // the row is bad, or its payload cannot be read
	Expired   Outcome = "expired"   // the token did not appear in time
	Cancelled Outcome = "cancelled" // an operator cancelled the run
)

// Outcomes that leave a row open.
const (
	HandedOn  Outcome = "handed_on" // another task goes on with the row
	NotYet    Outcome = "not_yet"   // DNS does not have the token yet
	Paced     Outcome = "paced"     // the tenant's rate allows no request yet
	Blocked   Outcome = "blocked"   // the API refuses the credentials, they lack a scope, or an operator has stopped the tenant
	Transient Outcome = "transient" // an attempt failed, and is repeated
	Stopping  Outcome = "stopping"  // the worker stops; another one goes on with the row

	Paused     Outcome = "paused"     // the run is paused: the task is dropped, and made anew when it is resumed
	Superseded Outcome = "superseded" // the run was resumed, and has another task for the row
)

// Settles reports whether the outcome is a row's last.
func (o Outcome) Settles() bool {
	switch o {
	case Done, Unchanged, Failed, Refused, Invalid, Expired, Cancelled:
		return true
	}
	return false
}

// Well reports whether the row has its effect.
func (o Outcome) Well() bool { return o == Done || o == Unchanged }
