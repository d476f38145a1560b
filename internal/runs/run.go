package runs

import (
	"time"

	"orgops/apiclient"
	"orgops/internal/ledger"
)

// Text of strangers is shown in terminals, pages and spreadsheets. It is capped and escaped
// once, when it is read.
const (
	maxDetail = 500 // runes: room for a sentence and a quoted TXT value
	maxLabel  = 200 // runes: one line of a list
)

// Run is one bulk submission.
type Run struct {
	ID     string // [A-Za-z0-9_-]{1,64}
	Kind   string // type of its rows, such as "domain:verify"
	Tenant string // whose budget and credentials it uses
	Label  string // the submitter's name for it; at most 200 characters
	// Digest is the hexadecimal SHA-256 of the decompressed input, or empty if it was not
	// known when the run was created.
	Digest string
	// Format is the form of the stored rows: "csv", "jsonl", or empty for rows of no file.
	Format string
	Parent string // the run whose rows this one repeats, or empty
	// Children are the ids of the runs that repeat rows of this one, in the order
	// in which they were started. One that does not exist was interrupted before it was
	// created.
	Children []string
	Caller   string           // the HTTP client that submitted it, or empty
	Columns  []string         // of CSV, the header's names as given
	Sealed   bool             // all rows are known, and Total is final
	Stored   int64            // rows that are stored
	Scan     *Scan            // the scan that finds the run's rows; nil: they are submitted
	Total    int64            // rows, bad ones included; 0 until sealed
	Settled  int64            // rows with a result
	Counts   map[string]int64 // settled rows by outcome, without zeros

	CreatedAt time.Time     // Redis's time, to the millisecond, UTC
	EndedAt   time.Time     // zero until the run has ended
	Paused    bool          // its rows do not start
	StoredAt  time.Time     // when rows were staged last; zero if none were
	GiveUp    time.Duration // how long a token may take to appear; 0: not set
	KeepFor   time.Duration // how long after its end the run is deleted; 0: the ledger's retention
	Group     string        // of the ledger's description, as BatchWait; only of a new run
	BatchWait time.Duration
	Priority  string // "high" or "normal", or empty
	// CancelledAt is zero unless the run was cancelled. Until it has ended, its
	// open rows are those in progress.
	CancelledAt time.Time
	// Incomplete reports whether Redis has lost rows of it. Then no row starts, and none
	// starts before NotBefore.
	Incomplete bool
	NotBefore  time.Time
}

// Scan is the progress of the scan that finds a run's rows.
type Scan struct {
	// Progress is the JSON of a sweep.Progress.
	Progress []byte
	// Note is why the scan waits, empty if it does not, and Next when it tries again.
	Note string
	Next time.Time
}

// Ended reports whether the run is sealed and every row settled.
func (r Run) Ended() bool { return !r.EndedAt.IsZero() }

// Scanning reports whether a scan may still find rows of the run.
func (r Run) Scanning() bool { return r.Scan != nil && !r.Sealed && r.CancelledAt.IsZero() }

// Rows returns the number of rows that are known: all of them once the run is sealed.
func (r Run) Rows() int64 {
	if r.Sealed {
		return r.Total
	}
	return r.Stored
}

// silentAfter is a hundred times as long as a producer takes from one segment of rows to
// the next.
const silentAfter = 5 * time.Minute

// SilentSince returns when the last rows of the run were staged, if it is still being
// submitted and no rows were staged for five minutes; else the zero time.
func (r Run) SilentSince(now time.Time) time.Time {
	last := r.StoredAt
	if last.IsZero() {
		last = r.CreatedAt
	}
	if r.Sealed || r.Scan != nil || now.Sub(last) < silentAfter {
		return time.Time{}
	}
	return last
}

// fromLedger returns a run of the ledger and its counts in the readers' form.
func fromLedger(r ledger.Run, counts ledger.Counts) Run {
	run := Run{
		ID: string(r.ID), Kind: string(r.Kind), Tenant: string(r.Tenant),
		Label: apiclient.Plain(r.Description.Label, maxLabel), Digest: r.Description.Digest, Format: r.Description.Format,
		Parent: string(r.Description.Parent), Caller: apiclient.Plain(r.Description.Caller, maxLabel), Columns: r.Description.Columns,
		Sealed: !r.Staged() && !r.Growing, Stored: r.Rows, Settled: counts.Settled(), Counts: map[string]int64{},
		CreatedAt: r.CreatedAt, CancelledAt: r.CancelledAt, EndedAt: r.EndedAt,
		GiveUp: r.Description.GiveUp, KeepFor: r.Description.KeepFor, Priority: r.Description.Priority,
	}
	if run.Sealed {
		run.Total = r.Rows
	}
	if c := r.Control; !c.Cancelled { // else nothing is left to stop
		run.Paused, run.Incomplete, run.NotBefore = c.Paused, c.Incomplete, c.NotBefore
	}
	if r.Reserved > 0 {
		run.StoredAt = r.StagedAt
	}
	if r.Scan != nil {
		run.Scan = &Scan{Progress: r.Scan.Progress, Note: r.Scan.Note, Next: r.Scan.NextAt}
	}
	for _, child := range r.Children {
		run.Children = append(run.Children, string(child))
	}
	for outcome, n := range counts {
		if n != 0 {
			run.Counts[string(outcome)] = n
		}
	}
	return run
}
