package ledger

// Class is the order in which runs share what may be released.
type Class int

const (
	// Express is the class of small runs, single rows and runs of high priority.
	Express Class = iota
	// Bulk is the class of all other runs.
	Bulk
)

// ExpressRows is the largest number of rows of a run that is served before bigger ones,
// unless its priority says otherwise.
const ExpressRows = 500

// ClassOf returns the class of a run.
func ClassOf(r Run) Class {
	switch r.Priority {
	case "high":
		return Express
	case "normal":
		return Bulk
	}
	if r.Rows <= ExpressRows && !r.Growing {
		return Express
	}
	return Bulk
}
