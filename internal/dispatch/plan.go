package dispatch

import (
	"time"

	"orgops/internal/ledger"
)

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
func ClassOf(r ledger.Run) Class {
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

// Candidate is a run that may have due rows.
type Candidate struct {
	Run   ledger.RunID
	Class Class
	// ServedAt is when rows of the run were last released, or when the run became a
	// candidate.
	ServedAt time.Time
	// Limit is the largest number of rows to grant; negative: no limit.
	Limit int
	// Cost is the number of requests of the cheapest rows that the run may have due.
	Cost float64
	// Held says that the run gets only the portions that go to any class.
	Held bool
}

// Grant is a number of rows that a run may release.
type Grant struct {
	Run  ledger.RunID
	Rows int
	// Turn says that one of its portions went to the run whatever its class.
	Turn bool
}

const (
	// longestEvery is which grant goes to the run that was served the longest ago,
	// whatever its class: no run starves.
	longestEvery = 9
	// planSteps bounds the steps of a plan: big numbers of rows are shared in bigger
	// portions.
	planSteps = 128
)

// Plan shares rows and permits among runs: those of the first class that has a candidate take equal
// shares, the one served the longest ago first, and each ninth portion goes to the run
// of any class that was served the longest ago. turn counts portions across plans.
// Grants are in the order of their first portions, in which they are to be served: a run may cost
// more than planned, and must not take the permits of a run that comes before it.
func Plan(rows int, permits Permits, runs []Candidate, turn *int) []Grant {
	granted, order := make([]int, len(runs)), []int{}
	turns := make([]bool, len(runs))
	portion := max(1, rows/planSteps)
	for rows > 0 {
		anyClass := (*turn+1)%longestEvery == 0
		i := next(runs, granted, permits, anyClass)
		if i < 0 {
			break
		}
		*turn++
		turns[i] = turns[i] || anyClass
		n := permits.Rows(min(portion, rows), runs[i].Cost)
		if limit := runs[i].Limit; limit >= 0 {
			n = min(n, limit-granted[i])
		}
		if granted[i] == 0 {
			order = append(order, i)
		}
		granted[i] += n
		rows -= n
		permits.Spend(n, runs[i].Cost)
	}
	var grants []Grant
	for _, i := range order {
		grants = append(grants, Grant{Run: runs[i].Run, Rows: granted[i], Turn: turns[i]})
	}
	return grants
}

// next returns the index of the run that gets the next portion; -1 if none can take any.
func next(runs []Candidate, granted []int, permits Permits, anyClass bool) int {
	best := -1
	for i, r := range runs {
		if r.Held && !anyClass {
			continue
		}
		if r.Limit >= 0 && granted[i] >= r.Limit {
			continue
		}
		if permits.Rows(1, r.Cost) == 0 {
			continue
		}
		if best < 0 || before(r, granted[i], runs[best], granted[best], anyClass) {
			best = i
		}
	}
	return best
}

// before reports whether run a gets a portion before run b.
func before(a Candidate, grantedA int, b Candidate, grantedB int, anyClass bool) bool {
	switch {
	case !anyClass && a.Class != b.Class:
		return a.Class < b.Class
	case !anyClass && grantedA != grantedB:
		return grantedA < grantedB
	}
	return a.ServedAt.Before(b.ServedAt)
}
