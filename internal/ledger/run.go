package ledger

import (
	"slices"
	"strings"
	"time"
)

// Description holds the properties that a submitter gives a run.
type Description struct {
	// Label is free text; at most 200 characters are stored.
	Label string `json:"label,omitempty"`
	// Digest is the hexadecimal SHA-256 of the input, or empty if it is not known when
	// the run is created.
	Digest string `json:"digest,omitempty"`
	// Format is the form of the rows: "csv", "jsonl", or empty for rows of no file.
	Format string `json:"format,omitempty"`
	// Columns are the names in the input's header, for CSV.
	Columns []string `json:"columns,omitempty"`
	// Parent is the id of the run whose rows this one repeats, or empty.
	Parent RunID `json:"parent,omitempty"`
	// Undoes is the id of the run whose changes this one undoes, or empty.
	Undoes RunID `json:"undoes,omitempty"`
	// Caller is the name of the HTTP client that submitted the run, or empty.
	Caller string `json:"caller,omitempty"`
	// Priority is "high", "normal" or empty.
	Priority string `json:"priority,omitempty"`
	// GiveUp is how long a row may wait for its token; 0: as long as its tenant's workers let it.
	GiveUp time.Duration `json:"give_up,omitempty"`
	// Max is the most verified domains of the tenant that may be set to pending in seven days; 0: not
	// set.
	Max int64 `json:"max,omitempty"`
	// KeepFor is the retention of the run after its end; 0: [Retention].
	KeepFor time.Duration `json:"keep_for,omitempty"`
	// Single reports whether lists of runs leave the run out: see [Ledger.OpenSingles]. It is a
	// row that was submitted by itself, of which there may be very many, or a run that orgops
	// submits every hour, which may have many rows.
	Single bool `json:"single,omitempty"`
	// Trace is the W3C traceparent of the submission, or empty.
	Trace string `json:"trace,omitempty"`
	// Group is the group of the row of a run of one row, such as its organization: a
	// dispatcher releases rows of one group together. Empty: none.
	Group string `json:"group,omitempty"`
	// BatchWait is how long such a row may wait for others before its first release; 0: not
	// at all. Rows of the same wait are due together, at its multiples.
	BatchWait time.Duration `json:"batch_wait,omitempty"`
}

// Control is the intended state of a run. While it is paused or not yet to start, only rows with
// an intent begin.
type Control struct {
	// Paused is set by people.
	Paused bool
	// Cancelled settles every row that has not begun. It is final.
	Cancelled bool
	// NotBefore is when rows may begin, in Redis' time; zero: at once. It does not change, also if the
	// run is cancelled.
	NotBefore time.Time
}

// stopped reports whether no row without an intent may begin at a time of Redis.
func (c Control) stopped(now time.Time) bool {
	return c.Paused || c.Cancelled || c.NotBefore.After(now)
}

// The letters by which a control's flags are stored.
const (
	pausedFlag    = "p"
	cancelledFlag = "c"
)

func (c Control) flags() (flags string) {
	if c.Paused {
		flags = pausedFlag
	}
	if c.Cancelled {
		flags += cancelledFlag
	}
	return flags
}

func parseControl(flags string, notBefore int64) Control {
	return Control{
		Paused:    strings.Contains(flags, pausedFlag),
		Cancelled: strings.Contains(flags, cancelledFlag),
		NotBefore: fromMillis(notBefore),
	}
}

// Counts is a number of rows by outcome.
type Counts map[Outcome]int64

// Settled returns the sum of all outcomes.
func (c Counts) Settled() (n int64) {
	for _, of := range c {
		n += of
	}
	return n
}

// Stuck says why a run makes no progress, for a reason that does not end by itself.
type Stuck struct {
	Why string
	// Since is when that was found first, and At when it was found last, in Redis' time. A run that
	// was not found stuck for [StuckFor] goes on.
	Since, At time.Time
}

// Scan is the state of the scan that finds the rows of a run: see [NewRun.Scan].
type Scan struct {
	// Progress is that of the last step, in the scan's own form.
	Progress []byte
	// Note is note or memo of the scan's row while the row waits until NextAt; nil and zero if it does
	// not wait. Once the row is settled, the note is its result.
	Note   []byte
	NextAt time.Time
}

// Run is the header of a run. Times are Redis', to the millisecond; zero means not yet. Label and
// Caller are safe to show.
type Run struct {
	ID          RunID
	Incarnation Incarnation
	Tenant      Tenant
	Kind        Kind
	Description
	Control

	// Reserved is the number of segments that are stored, also of a staged run.
	Reserved int
	// Segments and Rows count the committed segments and their rows.
	Segments int
	Rows     int64
	// Growing reports whether the run is committed and may get more rows: see [NewRun.Scan].
	Growing bool
	// Scan is the scan that finds the rows; nil if they are submitted.
	Scan *Scan

	// Children are the runs that repeat rows of this one, in the order of [Ledger.Adopt]. childEntries
	// has their ids by their numbers, with marks instead of those that are none any more.
	Children     []Child
	childEntries []string

	// Counts is the number of settled rows by outcome, of those that are committed.
	Counts Counts

	// Stuck is why the run was last found to make no progress; nil: it never was.
	Stuck *Stuck

	CreatedAt time.Time
	// StagedAt is when the last segment was staged; before the first, CreatedAt.
	StagedAt    time.Time
	CommittedAt time.Time
	CancelledAt time.Time
	EndedAt     time.Time
	// FinishedAt is when [Ledger.Finish] was called.
	FinishedAt time.Time
	// DeletingAt is when the run was to be deleted. It is about to vanish.
	DeletingAt time.Time
}

// Staged reports whether no row of the run is committed.
func (r Run) Staged() bool { return r.CommittedAt.IsZero() }

// Ended reports whether the whole run is committed and every row is settled.
func (r Run) Ended() bool { return !r.EndedAt.IsZero() }

// HasAllRows reports whether all rows of the run are known: no more are submitted or found.
func (r Run) HasAllRows() bool { return !r.Staged() && !r.Growing }

// Scanning reports whether a scan may still find rows of the run.
func (r Run) Scanning() bool { return r.Scan != nil && !r.HasAllRows() && r.CancelledAt.IsZero() }

// Total returns the number of rows once all are known, until then 0.
func (r Run) Total() int64 {
	if !r.HasAllRows() {
		return 0
	}
	return r.Rows
}

// Settled returns the number of settled rows by [Run.Counts].
func (r Run) Settled() int64 { return r.Counts.Settled() }

func (r Run) segment(number int) Segment {
	return Segment{Tenant: r.Tenant, Run: r.ID, Incarnation: r.Incarnation, Number: number}
}

// OfRun returns the run of a segment, with no more than its tenant, id and incarnation.
func (s Segment) OfRun() Run { return Run{Tenant: s.Tenant, ID: s.Run, Incarnation: s.Incarnation} }

// entry is the run's name in its tenant's lists.
func (r Run) entry() string { return string(r.ID) + "/" + string(r.Incarnation) }

// The marks in the places of children that are none any more, so that the others keep their
// numbers.
const (
	withoutRows  = "." // it was cancelled or deleted before its rows were committed
	deletedChild = "," // it was deleted later
)

// Child is a run that repeats rows of another, its parent. It is none any more once it is deleted,
// or cancelled before its rows were committed.
type Child struct {
	ID RunID
	// Number is that of the child among those that its parent has, and had, from 1. The rows that the
	// child repeats are stored with it: see [Ledger.Claim].
	Number int
}

// ChildOf returns the child of that id.
func (r Run) ChildOf(id RunID) (child Child, ok bool) {
	at := slices.IndexFunc(r.Children, func(c Child) bool { return c.ID == id })
	if at < 0 {
		return Child{}, false
	}
	return r.Children[at], true
}

// childrenOf returns the children among these entries of a header.
func childrenOf(entries []string) (children []Child) {
	for at, id := range entries {
		if id != withoutRows && id != deletedChild {
			children = append(children, Child{ID: RunID(id), Number: at + 1})
		}
	}
	return children
}
