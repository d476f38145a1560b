// Package release has the properties of a kind of rows on which their release depends. The
// dispatcher plans by them, and views say by them what holds a run.
package release

import "orgops/internal/obstacle"

// Stage is a stage of rows that a release distinguishes: those of the ledger, and before them that
// of rows which were never released.
type Stage int

// The stages, in the order in which rows of a run are released.
const (
	StageReady Stage = iota // its token was found, or it waits for a permit
	StageCheck              // to be checked again
	StageFirst              // never released
	Stages                  // how many there are
)

// ByStage has a value for each stage.
type ByStage[T any] struct{ First, Check, Ready T }

// Of returns the value of a stage.
func (b ByStage[T]) Of(s Stage) T {
	return [Stages]T{StageReady: b.Ready, StageCheck: b.Check, StageFirst: b.First}[s]
}

// Kind holds the properties of a kind of rows.
type Kind struct {
	Operations Operations
	// Cost is the number of requests of an execution.
	Cost Cost
	// Batch is the largest number of rows of one task; 0: one. The rows of a request are of one
	// task: its handler makes them fewer, and never joins them.
	Batch int
	// Group returns the group of a row, such as its organization, from its content: the rows
	// of one task have the same group. nil: all rows do.
	Group func(content []byte) string
}

// Operations are the API operations that every execution of a row needs, by the row's stage: while
// one of them is blocked a row of the stage is released for each probe. One that
// only some rows need does not belong here, since the row that is released would not find
// out whether it works again.
type Operations = ByStage[[]string]

// Cost is the number of requests that an execution of a task makes on average, by the stage of its
// rows. Zero is for DNS checks.
type Cost = ByStage[float64]

// Work returns what executions of the kind need, of rows at each stage.
func (k Kind) Work() (all []obstacle.Work) {
	for stage := range Stages {
		all = append(all, k.WorkAt(stage))
	}
	return all
}

// WorkAt returns what an execution of a row at a stage needs. A scan costs requests, whose
// operations are not known.
func (k Kind) WorkAt(s Stage) obstacle.Work {
	operations := k.Operations.Of(s)
	return obstacle.Work{Operations: operations, Requests: len(operations) > 0 || k.Cost.Of(s) > 0}
}

// Always returns the operations of a kind whose executions all need the same.
func Always(operations ...string) Operations {
	return Operations{First: operations, Check: operations, Ready: operations}
}
