package tasks

// Outcome is the result of a row.
type Outcome string

// The outcomes. docs/reference/outcomes.md has their comments.
const (
	Done      Outcome = "done"      // it is now as the row asked for
	Unchanged Outcome = "unchanged" // it was so before
	Failed    Outcome = "failed"    // every attempt failed
	Refused   Outcome = "refused"   // the API refused it, or the proof did
	Invalid   Outcome = "invalid"   // the row is bad
	Expired   Outcome = "expired"   // the token did not appear in time
	Cancelled Outcome = "cancelled" // an operator cancelled the run
)

// Well reports whether the change was made, now or before.
func (o Outcome) Well() bool { return o == Done || o == Unchanged }
