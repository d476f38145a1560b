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

// quota returns the quota for n rows of a sort.
func (s sort) quota(n int) ledger.Quota {
	switch s {
	case ready:
		return ledger.Quota{Ready: n}
	case check:
		return ledger.Quota{Check: n}
	}
	return ledger.Quota{First: n}
}
