package status

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"orgops/internal/ledger"
	"orgops/internal/remedy"
	"orgops/internal/stamp"
)

// Run describes a run to everybody who may see it, its submitter over HTTP among them: commands
// print it, pages render it, and the HTTP API sends it. Members without a value are left out of
// the JSON. [RunDetails] has what a submitter does not see.
type Run struct {
	ID          ledger.RunID  `json:"run"`
	Kind        ledger.Kind   `json:"kind"`
	Tenant      ledger.Tenant `json:"tenant"`
	Label       string        `json:"label,omitempty"`
	Priority    string        `json:"priority,omitempty"`
	Parent      ledger.RunID  `json:"parent,omitempty"` // the run whose rows it repeats
	Caller      string        `json:"caller,omitempty"` // the client that submitted it over HTTP
	State       string        `json:"state"`            // one of the states below
	Text        string        `json:"state_text"`       // the same in words: see State
	Rows        *int64        `json:"rows,omitempty"`   // nil: not known yet
	Settled     int64         `json:"settled"`
	Counts      ledger.Counts `json:"counts"` // of settled rows, by outcome
	CreatedAt   time.Time     `json:"created_at"`
	EndedAt     time.Time     `json:"ended_at,omitzero"`
	CancelledAt time.Time     `json:"cancelled_at,omitzero"`
	NotBefore   time.Time     `json:"not_before,omitzero"` // until when it is postponed
	Scan        *Scan         `json:"scan,omitempty"`      // that finds its rows; nil: they were submitted
	SilentSince time.Time     `json:"idle_since,omitzero"` // when its producer sent the last rows, if it may have ended
	Undo        *Undo         `json:"undo,omitempty"`      // how it is undone; nil: there is nothing, or no command

	// Held is why none of its rows is executed, which Text has too; empty: rows are, or it is not
	// known.
	Held   string     `json:"-"`
	Ledger ledger.Run `json:"-"`
}

// The states of a run, in the order in which they apply.
const (
	Ended          = "ended"
	BeingCancelled = "being cancelled"
	Paused         = "paused"
	Postponed      = "postponed"
	Scanning       = "scanning for rows"
	BeingSubmitted = "being submitted"
	Open           = "open"
	NotStarted     = "not started" // a retry that was interrupted before its run was created
)

// RunOf describes the run.
func RunOf(r ledger.Run) Run {
	d := Run{
		ID: r.ID, Kind: r.Kind, Tenant: r.Tenant, Label: r.Label, Priority: r.Priority, Parent: r.Parent, Caller: r.Caller,
		State: stateOf(r), Text: State(r), Settled: r.Settled(), Counts: r.Counts, CreatedAt: r.CreatedAt, EndedAt: r.EndedAt,
		CancelledAt: r.CancelledAt, Scan: scanOf(r), SilentSince: SilentSince(r, time.Now()), Undo: UndoOf(r),
		Ledger: r,
	}
	if r.HasAllRows() {
		d.Rows = &r.Rows
	}
	if !r.Cancelled && r.NotBefore.After(time.Now()) {
		d.NotBefore = r.NotBefore
	}
	return d
}

// RunsOf describes the runs.
func RunsOf(all []ledger.Run) []Run {
	runs := make([]Run, len(all))
	for i, r := range all {
		runs[i] = RunOf(r)
	}
	return runs
}

func stateOf(r ledger.Run) string {
	switch {
	case r.Ended():
		return Ended
	case !r.CancelledAt.IsZero():
		return BeingCancelled
	case r.Paused:
		return Paused
	case r.NotBefore.After(time.Now()):
		return Postponed
	case r.Scanning():
		return Scanning
	case !r.HasAllRows():
		return BeingSubmitted
	}
	return Open
}

// Ended reports whether every row of the run is settled.
func (r Run) Ended() bool { return r.State == Ended }

// Brief returns the state and the counts of a run that is named by another.
func (r Run) Brief() string {
	if r.State == NotStarted {
		return fmt.Sprintf("interrupted before it started; to complete it: enqueue runs retry %s --run %s", r.Parent, r.ID)
	}
	return State(r.Ledger) + "; " + Counts(r.Ledger)
}

// Hold is a reason why no row of a run is executed, in words.
type Hold struct {
	Why string
	Fix string // what is to be done, or what follows; empty: nothing
}

// String returns the reason and what is to be done.
func (h Hold) String() string {
	if h.Fix == "" {
		return h.Why
	}
	return h.Why + "; " + h.Fix
}

// State returns the state of a run in words: "done, 60 failed". held is why none of its rows is
// executed; empty: rows are, or it is not known.
func State(r ledger.Run, held ...Hold) string {
	state := stateOf(r)
	switch {
	case state == BeingCancelled:
		return "cancelled; " + UnderWay(r)
	case state == Postponed:
		return "postponed until " + stamp.UTC(r.NotBefore)
	case state == Ended && !r.CancelledAt.IsZero():
		state = "cancelled"
	case state == Ended:
		state = "done"
	case state != Open:
		return state
	case len(held) > 0:
		state = "waits: " + held[0].Why
	}
	// Findings of sweeps are named, and all other failed rows are counted together.
	failed := Failed(r) - r.Counts[ledger.Cancelled]
	for _, outcome := range []ledger.Outcome{ledger.Lost, ledger.Unproven, ledger.Withdrawn} {
		if rows := r.Counts[outcome]; rows > 0 {
			state += fmt.Sprintf(", %s %s", Grouped(rows), outcome)
			failed -= rows
		}
	}
	if failed > 0 {
		state += fmt.Sprintf(", %s failed", Grouped(failed))
	}
	if rows := r.Counts[ledger.AtRisk]; rows > 0 {
		state += fmt.Sprintf(", %s at risk", Grouped(rows))
	}
	return state
}

// ToContinue is the remedy for a paused run.
func ToContinue(r ledger.Run) string { return "to continue: " + remedy.Resume(string(r.ID)).String() }

// Stopped returns why no row of the run starts: it is paused or postponed. "": rows start.
func Stopped(r ledger.Run) string {
	if slices.Contains([]string{Paused, Postponed}, stateOf(r)) {
		return State(r)
	}
	return ""
}

// UnderWay describes the rows in progress of a cancelled run.
func UnderWay(r ledger.Run) string {
	if rows := r.Total() - r.Settled(); rows != 1 {
		return Grouped(rows) + " rows are in progress and finish first"
	}
	return "1 row is in progress and finishes first"
}

// Counts returns the outcomes of a run: "198 done, 3 expired".
func Counts(r ledger.Run) string {
	var parts []string
	for _, outcome := range slices.Sorted(maps.Keys(r.Counts)) {
		parts = append(parts, Grouped(r.Counts[outcome])+" "+string(outcome))
	}
	switch {
	case len(parts) > 0:
		return strings.Join(parts, ", ")
	case r.Ended() && r.Total() == 0:
		return "no rows"
	}
	return "none settled"
}

// Total returns the number of the run's rows, or "?" while that is not known.
func Total(r ledger.Run) string {
	if !r.HasAllRows() {
		return "?"
	}
	return fmt.Sprint(r.Total())
}

// Failure returns why the runs did not succeed: rows failed, or a scan left organizations out.
// nil: they did.
func Failure(all ...ledger.Run) (err error) {
	failed := int64(0)
	for _, r := range all {
		failed += Failed(r)
		scan := scanOf(r)
		if out := scan.LeftOut(); out != "" {
			err = errors.Join(err, fmt.Errorf("run %s: the scan left %s out: %s", r.ID, scan.subjects(), out))
		}
	}
	if failed > 0 {
		err = errors.Join(err, fmt.Errorf("failed rows: %d", failed))
	}
	return err
}

// Failed returns the number of the run's failed rows.
func Failed(r ledger.Run) (rows int64) {
	for outcome, n := range r.Counts {
		if !ledger.Succeeded(outcome) {
			rows += n
		}
	}
	return rows
}

// Trouble returns the faults of a run that an operator has to correct.
func Trouble(r ledger.Run) []Fact {
	scan := scanOf(r)
	if scan.LeftOut() == "" {
		scan = nil
	}
	return facts(Fact{Name: "scan", Text: scan.String()}, Fact{Name: "producer", Text: SilentProducer(r)},
		Fact{Name: "no progress", Text: StuckOf(r, time.Now()).String()})
}

// SilentProducer describes how to proceed if no rows of the run come any more: see
// [SilentSince]; "": they do, or all have come.
func SilentProducer(r ledger.Run) string {
	since := SilentSince(r, time.Now())
	if since.IsZero() {
		return ""
	}
	return fmt.Sprintf("silent since %s; if it has ended: submit the same rows again with --run %s, or cancel it: "+
		"enqueue runs cancel %s", stamp.UTC(since), r.ID, r.ID)
}

// Stuck says why a run makes no progress until a person acts.
type Stuck struct {
	Since  time.Time `json:"since"`
	Reason string    `json:"reason"` // and the remedy
}

// stuckAfter is how long a run makes no progress before that is a matter for people: less than from
// one failure of the follow-ups of its end to the next.
const stuckAfter = 45 * time.Second

// StuckOf returns why a run makes no progress; nil: it does, or lately did.
func StuckOf(r ledger.Run, now time.Time) *Stuck {
	found := r.Stuck
	if found == nil || found.At.Sub(found.Since) < stuckAfter || now.Sub(found.At) >= ledger.StuckFor {
		return nil
	}
	return &Stuck{found.Since, found.Why}
}

// String returns since when and why; "" of nil.
func (s *Stuck) String() string {
	if s == nil {
		return ""
	}
	return "since " + stamp.UTC(s.Since) + ": " + s.Reason
}

// silentAfter is a hundred times as long as a producer takes from one segment of rows to
// the next.
const silentAfter = 5 * time.Minute

// SilentSince returns when the last rows of the run were staged, if it is still being
// submitted and no rows were staged for five minutes; else the zero time.
func SilentSince(r ledger.Run, now time.Time) time.Time {
	if r.HasAllRows() || r.Scan != nil || now.Sub(r.StagedAt) < silentAfter {
		return time.Time{}
	}
	return r.StagedAt
}
