package dispatch

import (
	"slices"
	"time"

	"orgops/internal/pace"
)

// probeEvery is how often at most a row of a blocked operation is released, to find out
// whether the operation works again: a row may need no request in the end.
const probeEvery = 30 * time.Second

// Gate decides which kinds may be released while the tenant is stopped or paused, or
// operations are paused or blocked. The zero Gate is ready.
type Gate struct {
	probed map[string]time.Time // operation -> when its last probe was released
}

// Rows returns the largest number of rows to release for a kind that needs the
// operations: none while the tenant is stopped or paused or one of them is paused, one for each
// probe while one is blocked, else -1 for no limit. Before the next probe gets a permit it is not
// released: it would be back after 30 s without a request. Rows that need no operation, such as DNS
// checks, are always released. Some send a request in the end, for which they need a permit
// as all do: while the tenant is stopped none changes a record, and during a pause none is
// sent.
func (g *Gate) Rows(now time.Time, s pace.State, operations []string) int {
	if len(operations) == 0 {
		return -1
	}
	paused := func(p pace.Pause) bool { return slices.Contains(operations, p.Operation) && p.Until.After(s.At) }
	if s.Stopped != nil || s.PausedUntil.After(s.At) || slices.ContainsFunc(s.Pauses, paused) {
		return 0
	}
	limit := -1
	for _, b := range blocks(s, operations) {
		limit = 1
		if now.Sub(g.probed[b.Operation]) < probeEvery || s.At.Before(b.NextProbe) {
			return 0
		}
	}
	return limit
}

// Probed records that rows of a kind were released that needs the operations.
func (g *Gate) Probed(now time.Time, s pace.State, operations []string) {
	for _, b := range blocks(s, operations) {
		if g.probed == nil {
			g.probed = map[string]time.Time{}
		}
		g.probed[b.Operation] = now
	}
}

// blocks returns the blocked ones among the operations.
func blocks(s pace.State, operations []string) (blocked []pace.Block) {
	for _, b := range s.Blocks {
		for _, operation := range operations {
			if b.Operation == operation || b.Operation == pace.All {
				blocked = append(blocked, b)
				break
			}
		}
	}
	return blocked
}
