package ledger

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
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
	// Caller is the name of the HTTP client that submitted the run, or empty.
	Caller string `json:"caller,omitempty"`
	// Priority is "high", "normal" or empty.
	Priority string `json:"priority,omitempty"`
	// GiveUp is how long a row may wait for its token from its first begin on; 0: not
	// set.
	GiveUp time.Duration `json:"give_up,omitempty"`
	// KeepFor is the retention of the run after its end; 0: [Retention].
	KeepFor time.Duration `json:"keep_for,omitempty"`
	// Single reports whether lists of runs leave the run out: see [Ledger.Singles]. It is a
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

// Counts is a number of rows by outcome.
type Counts map[Outcome]int64

// add adds the other counts.
func (c Counts) add(other Counts) {
	for outcome, n := range other {
		c[outcome] += n
	}
}

// Settled returns the sum of all outcomes.
func (c Counts) Settled() (n int64) {
	for _, of := range c {
		n += of
	}
	return n
}

// Run is the header of a run. Times are Redis', to the millisecond; zero means not yet.
type Run struct {
	ID          RunID
	Incarnation Incarnation
	Tenant      Tenant
	Kind        Kind
	Description
	Control

	// Reserved is the number of segments that exist or did, also of a staged run.
	Reserved int
	// Segments and Rows count the committed segments and their rows.
	Segments int
	Rows     int64
	// Growing reports whether the run is committed and may get more rows: see [NewRun.Scan].
	Growing bool
	// Scan is the scan that finds the rows; nil if they are submitted.
	Scan *Scan

	// Children are the runs that repeat rows of this one, in the order of [Ledger.Adopt].
	Children []RunID

	// Counts is an earlier sum of the segments' counters. It is a hint: see [Ledger.Counts].
	// Of a run that package runs has read, it is exact.
	Counts Counts

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

	version int64
	// base is the version that the present one replaced.
	base int64
}

// Staged reports whether no row of the run is committed.
func (r Run) Staged() bool { return r.CommittedAt.IsZero() }

// Ended reports whether the whole run is committed and every row is settled.
func (r Run) Ended() bool { return !r.EndedAt.IsZero() }

// Sealed reports whether all rows of the run are known: no more are submitted or found.
func (r Run) Sealed() bool { return !r.Staged() && !r.Growing }

// Scanning reports whether a scan may still find rows of the run.
func (r Run) Scanning() bool { return r.Scan != nil && !r.Sealed() && r.CancelledAt.IsZero() }

// Total returns the number of rows once all are known, until then 0.
func (r Run) Total() int64 {
	if !r.Sealed() {
		return 0
	}
	return r.Rows
}

// Settled returns the number of settled rows by [Run.Counts].
func (r Run) Settled() int64 { return r.Counts.Settled() }

func (r Run) segment(number int) Segment {
	return Segment{Run: r.ID, Incarnation: r.Incarnation, Number: number}
}

// retention returns how long after its end the run is deleted.
func (r Run) retention() time.Duration {
	if r.KeepFor > 0 {
		return r.KeepFor
	}
	return Retention
}

// entry is the run's name in its tenant's lists.
func (r Run) entry() string { return string(r.ID) + "/" + string(r.Incarnation) }

// Get returns a run, or [ErrNotFound].
func (l *Ledger) Get(ctx context.Context, id RunID) (Run, error) {
	hash, err := l.header(ctx, id)
	if err != nil {
		return Run{}, err
	}
	return parseRun(id, hash)
}

// header returns the header of a run that is not being deleted, or [ErrNotFound].
func (l *Ledger) header(ctx context.Context, id RunID) (map[string]string, error) {
	if err := id.Validate(); err != nil {
		return nil, err
	}
	hash, err := l.rdb.HGetAll(ctx, headerKeys(id)[0]).Result()
	if err != nil {
		return nil, fmt.Errorf("run %s: read: %w", id, err)
	}
	if len(hash) == 0 || hash["deleting_at"] != "" {
		return nil, fmt.Errorf("run %s: %w", id, ErrNotFound)
	}
	return hash, nil
}

func parseRun(id RunID, hash map[string]string) (Run, error) {
	read := numbers{hash: hash}
	r := Run{
		ID: id, Incarnation: Incarnation(hash["inc"]), Tenant: Tenant(hash["tenant"]), Kind: Kind(hash["kind"]),
		Control:  parseControl(hash["flags"], read.int("not_before")),
		Reserved: int(read.int("reserved")), Segments: int(read.int("segments")), Rows: read.int("rows"),
		CreatedAt: read.time("created_at"), StagedAt: read.time("staged_at"),
		CommittedAt: read.time("committed_at"), CancelledAt: read.time("cancelled_at"), EndedAt: read.time("ended_at"),
		FinishedAt: read.time("finished_at"), DeletingAt: read.time("deleting_at"),
		Children: parseRuns(hash["children"]), version: read.int("v"),
	}
	if r.base = read.int("base"); r.base == 0 {
		r.base = r.version
	}
	r.Growing = !r.CommittedAt.IsZero() && hash["sealed"] == ""
	if progress, ok := hash["scan"]; ok {
		r.Scan = &Scan{
			Step: read.int("scan_step"), Progress: []byte(progress), Note: hash["scan_note"], NextAt: read.time("scan_next"),
			Ended: hash["scan_ended"] != "",
		}
	}
	err := read.err
	if err == nil {
		err = json.Unmarshal([]byte(hash["about"]), &r.Description)
	}
	if err == nil {
		r.Counts, err = parseCounts(hash["counts"])
	}
	if err == nil {
		err = cmp.Or(r.Tenant.Validate(), r.segment(0).Validate(), checkSegments("reserved", r.Reserved), checkSegments("segments", r.Segments))
	}
	if err != nil {
		return Run{}, fmt.Errorf("run %s: stored header: %w", id, err)
	}
	return r, nil
}

// checkSegments returns an error unless a run can have so many segments.
func checkSegments(field string, n int) error {
	if n < 0 || n > MaxSegments {
		return fmt.Errorf("%s: %d: want 0 to %d", field, n, MaxSegments)
	}
	return nil
}

// String returns the counts as outcome=number, separated by spaces, in no order.
func (c Counts) String() string {
	var parts []string
	for outcome, n := range c {
		parts = append(parts, string(outcome)+"="+strconv.FormatInt(n, 10))
	}
	return strings.Join(parts, " ")
}

func parseCounts(text string) (Counts, error) {
	c := Counts{}
	for part := range strings.FieldsSeq(text) {
		outcome, digits, _ := strings.Cut(part, "=")
		n, err := strconv.ParseInt(digits, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("count of %s: %w", quoted(outcome), err)
		}
		c[Outcome(outcome)] = n
	}
	return c, nil
}

// numbers reads a hash's decimal fields and keeps the first error. A field that does not
// exist is 0.
type numbers struct {
	hash map[string]string
	err  error
}

func (n *numbers) int(field string) int64 {
	text := n.hash[field]
	if text == "" {
		return 0
	}
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil && n.err == nil {
		n.err = fmt.Errorf("%s: %w", field, err)
	}
	return v
}

func (n *numbers) time(field string) time.Time { return fromMillis(n.int(field)) }
