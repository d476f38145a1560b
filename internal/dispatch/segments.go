package dispatch

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"orgops/internal/ledger"
	"orgops/internal/release"
)

// segment is a segment that the active dispatcher has taken from the index. It is
// in memory until it is put back with a later due time.
type segment struct {
	id ledger.Segment
	// due is that of the last receipt; zero if there was none.
	due time.Time
	// until is, for each stage, the time before which releasing it is in vain.
	until [release.Stages]time.Time
}

// emptyFor returns how long no row of a stage is released from a segment that had none due,
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

// wake makes all stages of a segment candidates again. It reports whether the segment is in
// memory.
func (t taken) wake(seg ledger.Segment) bool {
	r := t[nameOf(seg)]
	if r == nil {
		return false
	}
	for _, s := range r.segments {
		if s.id == seg {
			s.until = [release.Stages]time.Time{}
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

// learn stores the segment's due time after a release. Stages without a due row are
// not released before until.
func (s *segment) learn(r ledger.Release, until time.Time) {
	s.due = r.Due
	due := [release.Stages]int{release.StageReady: r.Open.ReadyDue, release.StageCheck: r.Open.CheckDue,
		release.StageFirst: r.Open.Queued}
	for stage, rows := range due {
		if rows == 0 {
			s.until[stage] = until
		}
	}
}

// rest has no stage of the segment released before until.
func (s *segment) rest(until time.Time) {
	for stage := range s.until {
		s.until[stage] = until
	}
}

// idle reports whether no stage of the segment is worth a release now.
func (s *segment) idle(now time.Time) bool {
	for _, until := range s.until {
		if !now.Before(until) {
			return false
		}
	}
	return true
}

// due returns of which stages rows may be due now.
func (r *run) due(now time.Time) (due release.ByStage[bool]) {
	for _, s := range r.segments {
		due.Ready = due.Ready || !now.Before(s.until[release.StageReady])
		due.Check = due.Check || !now.Before(s.until[release.StageCheck])
		due.First = due.First || !now.Before(s.until[release.StageFirst])
	}
	return due
}

// quotaOf returns the quota for n rows of a stage.
func quotaOf(s release.Stage, n int) ledger.Quota {
	switch s {
	case release.StageReady:
		return ledger.Quota{Ready: n}
	case release.StageCheck:
		return ledger.Quota{Check: n}
	}
	return ledger.Quota{First: n}
}
