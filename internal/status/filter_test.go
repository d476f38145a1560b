package status_test

import (
	"net/url"
	"slices"
	"testing"
	"time"

	"orgops/internal/ledger"
	"orgops/internal/status"
)

// TestStateInWords checks the words of each state, and the filters that select it.
func TestStateInWords(t *testing.T) {
	at := time.Date(2026, 12, 1, 2, 0, 0, 0, time.UTC)
	done := ledger.Run{Rows: 3, CommittedAt: at, CreatedAt: at, EndedAt: at, Counts: ledger.Counts{"done": 3}}
	with := func(change func(r *ledger.Run)) ledger.Run {
		r := done
		change(&r)
		return r
	}
	for _, test := range []struct {
		run    ledger.Run
		held   []status.Hold
		want   string
		states []string
	}{
		{done, nil, "done", []string{"done", "ended"}},
		{with(func(r *ledger.Run) { r.Counts = ledger.Counts{"done": 1, "refused": 1, "failed": 1} }), nil, "done, 2 failed",
			[]string{"attention", "ended", "failed"}},
		{with(func(r *ledger.Run) { r.Counts = ledger.Counts{"unchanged": 1, "lost": 1, "unproven": 1} }), nil,
			"done, 1 lost, 1 unproven", []string{"attention", "ended", "failed"}},
		{with(func(r *ledger.Run) {
			r.Counts, r.CancelledAt, r.Cancelled = ledger.Counts{"cancelled": 2, "failed": 1}, at, true
		}), nil, "cancelled, 1 failed", []string{"attention", "cancelled", "ended", "failed"}},
		{with(func(r *ledger.Run) { r.EndedAt, r.Counts = time.Time{}, ledger.Counts{"done": 1} }), nil, "open",
			[]string{"open"}},
		{with(func(r *ledger.Run) { r.EndedAt, r.Counts = time.Time{}, ledger.Counts{"failed": 1} }),
			[]status.Hold{{Why: "no worker: v1; v2", Fix: "start one"}, {Why: "x"}}, "waits: no worker: v1; v2, 1 failed",
			[]string{"attention", "failed", "open"}},
		{with(func(r *ledger.Run) { r.EndedAt, r.Counts, r.Paused = time.Time{}, nil, true }),
			[]status.Hold{{Why: "no worker"}}, "paused", []string{"attention", "open", "paused"}},
	} {
		if got := status.State(test.run, test.held...); got != test.want {
			t.Errorf("state %q, want %q", got, test.want)
		}
		var states []string
		for state := range status.RunStates {
			if (status.RunFilter{State: state}).Selects(test.run) && state != "" {
				states = append(states, state)
			}
		}
		if slices.Sort(states); !slices.Equal(states, test.states) {
			t.Errorf("%s: filters %q, want %q", test.want, states, test.states)
		}
	}
}

// TestFilterOfRuns checks the members of a filter as an address has them.
func TestFilterOfRuns(t *testing.T) {
	at := time.Date(2026, 12, 1, 2, 0, 0, 0, time.UTC)
	run := ledger.Run{Tenant: "acme", Kind: "domain:verify", CreatedAt: at,
		Description: ledger.Description{Label: "July Import", Caller: "billing"}}
	for query, want := range map[string]bool{
		"": true, "tenant=acme": true, "tenant=acm": false, "kind=domain:verify": true, "kind=domain": false,
		"label=y+imp": true, "label=x": false, "caller=billing": true, "caller=bill": false,
		"since=2026-12-01T02:00:00Z": true, "since=2026-12-01T02:00:01Z": false, "since=2026-12-01": true,
		"until=2026-12-01T02:00:00Z": false, "until=2026-12-01T03:30:00%2B01:00": true, "until=2026-12-01": false,
		"label=import&caller=x": false, "state=open": true, "state=ended": false,
	} {
		values, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		f, err := status.ReadRunFilter(values)
		if got := err == nil && f.Selects(run); got != want {
			t.Errorf("%s: selected %v, %v; want %v", query, got, err, want)
		}
	}
	ago := status.RunFilter{Since: "8h"}
	if err := ago.Check(at.Add(8 * time.Hour)); err != nil || !ago.Selects(run) {
		t.Errorf("a run of eight hours ago is not selected: %v", err)
	}
	if err := ago.Check(at.Add(9 * time.Hour)); err != nil || ago.Selects(run) {
		t.Errorf("a run of nine hours ago is selected: %v", err)
	}
	for _, bad := range []status.RunFilter{{State: "unwell"}, {Since: "soon"}, {Until: "2026-13-01"}} {
		if err := bad.Check(at); err == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
}
