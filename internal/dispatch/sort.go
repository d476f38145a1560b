package dispatch

import "orgops/internal/ledger"

// sort is the sort of rows that a release distinguishes.
type sort int

// The sorts, in the order in which they are released.
const (
	ready sort = iota // proven once, needs a permit
	check             // to be checked again
	first             // never released
	sorts
)

// BySort has a value for each sort of release: of rows that were never released, and of due
// rows at each stage.
type BySort[T any] struct{ First, Check, Ready T }

// of returns the value of a sort.
func (b BySort[T]) of(s sort) T {
	return [sorts]T{ready: b.Ready, check: b.Check, first: b.First}[s]
}

// quota returns the quota for n rows of a sort.
func (s sort) quota(n int) ledger.Quota {
	var rows [sorts]int
	rows[s] = n
	return ledger.Quota{First: rows[first], Check: rows[check], Ready: rows[ready]}
}
