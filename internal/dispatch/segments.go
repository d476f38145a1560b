package dispatch

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"orgops/internal/ledger"
)

// segment is a segment that the active dispatcher has taken from the index. It is
// in memory until it is put back with a later due time.
type segment struct {
	id ledger.Segment
	// due and open are those of the last receipt; zero if there was none.
	due  time.Time
	open ledger.OpenRows
	// until is, for each sort, the time before which releasing it is in vain.
	until [sorts]time.Time
}

// emptyFor returns how long no row of a sort is released from a segment that had none due,
// unless the index returns it again. The time grows with the number of segments in memory, so that
// releases in vain stay below 500 a second.
func emptyFor(segments int) time.Duration {
	return min(max(time.Second, time.Duration(segments)*4*time.Millisecond), 5*time.Second)
}

// run is a run of which segments are in memory.
type run struct {
	ledger.Run
	servedAt time.Time
	probedAt time.Time  // when its row was last a probe of a blocked operation, or it was taken
	segments []*segment // in the order in which they were taken
}

// taken is the set of segments in memory, by the names of their runs.
type taken map[ledger.RunID]*run

// nameOf returns the name of a segment's run in memory. A scan's row is released by itself, as if
// it were a run of its own, with a name that no run can have.
func nameOf(seg ledger.Segment) ledger.RunID {
	if seg.Number == ledger.ScanSegment {
		return seg.Run + "/scan"
	}
	return seg.Run
}

// add adds a segment of a run, or wakes it if it is there already.
func (t taken) add(r ledger.Run, seg ledger.Segment, now time.Time) {
	have := t[r.ID]
	if have == nil || have.Incarnation != r.Incarnation {
		have = &run{servedAt: now, probedAt: now}
		t[r.ID] = have
	}
	have.Run = r
	if !t.wake(seg) {
		have.segments = append(have.segments, &segment{id: seg})
	}
}

// wake makes all sorts of a segment candidates again. It reports whether the segment is in
// memory.
func (t taken) wake(seg ledger.Segment) bool {
	r := t[nameOf(seg)]
	if r == nil {
		return false
	}
	for _, s := range r.segments {
		if s.id == seg {
			s.until = [sorts]time.Time{}
			return true
		}
	}
	return false
}

// drop removes a segment.
func (t taken) drop(seg ledger.Segment) {
	r := t[nameOf(seg)]
	if r == nil {
		return
	}
	r.segments = slices.DeleteFunc(r.segments, func(s *segment) bool { return s.id == seg })
	if len(r.segments) == 0 {
		delete(t, nameOf(seg))
	}
}

// segments returns the number of segments.
func (t taken) segments() (n int) {
	for _, r := range t {
		n += len(r.segments)
	}
	return n
}

// ordered returns the runs, the oldest first.
func (t taken) ordered() []*run {
	return slices.SortedFunc(maps.Values(t), func(a, b *run) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
}

// learn stores the segment's due time and counts after a release. Sorts without a due row are
// not released before until.
func (s *segment) learn(r ledger.Release, until time.Time) {
	s.due, s.open = r.Due, r.Open
	for so, due := range [sorts]int{ready: r.Open.ReadyDue, check: r.Open.CheckDue, first: r.Open.Queued} {
		if due == 0 {
			s.until[so] = until
		}
	}
}

// idle reports whether no sort of the segment is worth a release now.
func (s *segment) idle(now time.Time) bool {
	for _, until := range s.until {
		if !now.Before(until) {
			return false
		}
	}
	return true
}

// idle reports whether in no segment of the run the sort is worth a release now.
func (r *run) idle(so sort, now time.Time) bool {
	return !slices.ContainsFunc(r.segments, func(s *segment) bool { return !now.Before(s.until[so]) })
}

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
