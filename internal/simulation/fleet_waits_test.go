package simulation_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"orgops/internal/engine"
	"orgops/internal/ledger"
)

// rowHistory has the events of a row.
type rowHistory struct {
	begun   []time.Time // by each execution once
	nonce   ledger.Nonce
	plans   []plannedWait
	settles []settle
}

// plannedWait is a wait that an execution has written at its end.
type plannedWait struct {
	span
	why ledger.Outcome
}

// settle is the write of a result.
type settle struct {
	at      time.Time
	outcome ledger.Outcome
	doubt   bool // the answer was lost
}

// at returns the history of a row. The caller holds f.mu.
func (f *fleet) at(seg ledger.Segment, row ledger.Row) *rowHistory {
	key := fleetRow{seg.Run, seg.Number, row}
	if f.histories[key] == nil {
		f.histories[key] = &rowHistory{}
	}
	return f.histories[key]
}

// watched is the ledger of an engine. It records the events of rows.
type watched struct {
	engine.Ledger
	f *fleet
}

// Begin records executions of rows. If its answer is lost, they may have begun.
func (l watched) Begin(ctx context.Context, seg ledger.Segment, e ledger.Execution,
	rows ...ledger.Row) (ledger.Begun, error) {
	begun, err := l.Ledger.Begin(ctx, seg, e, rows...)
	if errors.Is(err, errKilled) { // before the command was sent
		return begun, err
	}
	l.f.mu.Lock()
	defer l.f.mu.Unlock()
	for _, row := range rows {
		if h := l.f.at(seg, row); h.nonce != e.Nonce && (err != nil || admitted(begun, row)) {
			h.nonce, h.begun = e.Nonce, append(h.begun, now())
		}
	}
	return begun, err
}

func admitted(begun ledger.Begun, row ledger.Row) bool {
	return slices.ContainsFunc(begun.Rows, func(r ledger.BegunRow) bool {
		return r.Row == row && r.Status == ledger.RowAdmitted
	})
}

// End records results and waits. If its answer was lost they may have been written.
func (l watched) End(ctx context.Context, seg ledger.Segment, n ledger.Nonce,
	ends ...ledger.RowEnd) (ledger.Receipt, error) {
	receipt, err := l.Ledger.End(ctx, seg, n, ends...)
	l.f.mu.Lock()
	defer l.f.mu.Unlock()
	for i, end := range ends {
		written := i < len(receipt.Statuses) && receipt.Statuses[i] == ledger.RowWritten
		doubt := !written && err != nil && !errors.Is(err, errKilled) // errKilled: the command was not sent
		if !written && !doubt {
			continue
		}
		h := l.f.at(seg, end.Row)
		switch e := end.Ending.(type) {
		case ledger.Result:
			h.settles = append(h.settles, settle{now(), e.Outcome, doubt})
		case ledger.Waiting:
			h.plans = append(h.plans, plannedWait{span{now(), now().Add(e.After)}, ledger.ParseNote(e.Memo).Outcome})
		}
	}
	return receipt, err
}

// rowWait is the time in which a row was open and could have had its effect, by reason.
type rowWait struct {
	total   time.Duration
	planned map[ledger.Outcome]time.Duration
	paused  time.Duration // its run
	alone   time.Duration // no worker served the tenant
	clock   time.Duration // by which Redis' clock was set back
	rest    time.Duration // for the pace, being executed, and until faults were overcome
}

// waited divides the wait of a settled row that could have its effect at a time.
func (f *fleet) waited(r *fleetRun, h *rowHistory, from time.Time) rowWait {
	whole := span{from, f.settledAt(h)}
	w := rowWait{total: max(0, whole.to.Sub(from)), planned: map[ledger.Outcome]time.Duration{}}
	left := spans{whole}
	take := func(s span) (taken time.Duration) {
		before := left.length()
		left = left.without(s)
		return before - left.length()
	}
	for _, p := range h.plans {
		w.planned[p.why] += take(p.span)
	}
	w.paused = take(r.paused)
	for _, s := range r.tenant.alone {
		w.alone += take(s)
	}
	for _, s := range f.redis.steps {
		if s.by < 0 && whole.holds(s.at) {
			w.clock -= s.by
		}
	}
	w.clock = min(w.clock, left.length())
	w.rest = left.length() - w.clock
	return w
}

// settledAt returns when a row was settled finally: a result whose answer was lost may not
// have been written, and Redis may have lost a written one.
func (f *fleet) settledAt(h *rowHistory) time.Time {
	var doubtful time.Time
	for _, s := range h.settles {
		switch {
		case f.redis.wasLost(s.at):
		case !s.doubt:
			return s.at
		case doubtful.IsZero():
			doubtful = s.at
		}
	}
	if doubtful.IsZero() {
		return h.settles[len(h.settles)-1].at
	}
	return doubtful
}

// length returns the time of all spans.
func (s spans) length() (all time.Duration) {
	for _, one := range s {
		all += max(0, one.to.Sub(one.from))
	}
	return all
}

// without returns the spans without another one.
func (s spans) without(o span) (left spans) {
	for _, one := range s {
		if !one.meets(o) {
			left = append(left, one)
			continue
		}
		if one.from.Before(o.from) {
			left = append(left, span{one.from, o.from})
		}
		if o.to.Before(one.to) {
			left = append(left, span{o.to, one.to})
		}
	}
	return left
}

// String names the reasons.
func (w rowWait) String() string {
	var parts []string
	add := func(d time.Duration, why string) {
		if d >= time.Second {
			parts = append(parts, fmt.Sprintf("%v %s", d.Round(time.Second), why))
		}
	}
	for _, why := range []ledger.Outcome{ledger.NotYetFound, ledger.Paced, ledger.Transient, ledger.Blocked} {
		add(w.planned[why], "due later: "+string(why))
	}
	add(w.paused, "paused")
	add(w.alone, "no worker")
	add(w.clock, "Redis' clock set back")
	add(w.rest, "pace, executions and faults")
	return fmt.Sprintf("%v (%s)", w.total.Round(time.Second), strings.Join(parts, ", "))
}

// refusing is a ledger whose commands fail.
type refusing struct {
	engine.Ledger
	err error
}

func (r refusing) End(context.Context, ledger.Segment, ledger.Nonce, ...ledger.RowEnd) (ledger.Receipt, error) {
	return ledger.Receipt{}, fmt.Errorf("end: %w", r.err)
}

// TestFleetRecords has ends fail: a killed worker sends nothing, so nothing may be written.
func TestFleetRecords(t *testing.T) {
	for err, want := range map[error]int{errKilled: 0, errLost: 1} {
		f := &fleet{histories: map[fleetRow]*rowHistory{}}
		seg := ledger.Segment{Tenant: "t", Run: "r"}
		_, _ = watched{refusing{err: err}, f}.End(t.Context(), seg, "n",
			ledger.Ends(ledger.Result{Outcome: ledger.Done}, 3)...)
		if got := f.at(seg, 3).settles; len(got) != want || want == 1 && !got[0].doubt {
			t.Errorf("%v: results %v, want %d in doubt", err, got, want)
		}
	}
}

// TestFleetWaits divides the wait of a row by reason.
func TestFleetWaits(t *testing.T) {
	start := now()
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	f := &fleet{
		redis: &fleetRedis{lost: spans{{at(79), at(81)}}, steps: []step{{at(5), 9 * time.Second}, {at(60), -4 * time.Second},
			{at(200), -time.Hour}}},
	}
	r := &fleetRun{tenant: &fleetTenant{alone: spans{{at(39), at(42)}}}, paused: span{at(25), at(40)}}
	h := &rowHistory{
		plans: []plannedWait{{span{at(-5), at(2)}, ledger.Transient}, {span{at(10), at(30)}, ledger.NotYetFound},
			{span{at(12), at(20)}, ledger.Paced}},
		// One that Redis has lost, one that may not have been written, and the one that was.
		settles: []settle{{at(80), ledger.Done, false}, {at(90), ledger.Done, true}, {at(100), ledger.Done, false}},
	}
	const want = "1m40s (20s due later: not_yet, 2s due later: transient, 10s paused, 2s no worker, 4s Redis' clock set back, 1m2s pace, executions and faults)"
	if got := f.waited(r, h, start).String(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	h.settles = h.settles[:2]
	if got := f.settledAt(h); !got.Equal(at(90)) {
		t.Errorf("a row whose only lasting result is in doubt settled at %v, want %v", got, at(90))
	}
}
