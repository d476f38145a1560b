package sweep_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"orgops/internal/sweep"
)

// decide evaluates the states at the sweep of the seventh day.
func decide(e sweep.Evaluation, states ...sweep.DomainState) ([]sweep.Candidate, sweep.Breaker, sweep.Summary) {
	e.Complete = e.Early == ""
	e.Tick, e.Run, e.At = day0.Add(7*day).Unix(), "sweep", day0.Add(7*day+time.Hour)
	for i, s := range states {
		e.Add(fmt.Sprintf("ord_%d", i), s)
	}
	return e.Decide()
}

// newly makes the absence start with the last sweep.
func newly(s sweep.DomainState) sweep.DomainState {
	s.Absence = &sweep.Absence{Since: s.At, Tick: s.Tick, Last: s.At, LastTick: s.Tick, Checks: 1}
	return s
}

func many(n int, of func(organization string) sweep.DomainState) (all []sweep.DomainState) {
	for i := range n {
		all = append(all, of(fmt.Sprintf("org_%d", i)))
	}
	return all
}

func TestBreaker(t *testing.T) {
	fresh := func(o string) sweep.DomainState { return newly(absent(o, 7, 1)) }
	due := func(o string) sweep.DomainState { return absent(o, 7, 8) }
	for _, test := range []struct {
		name          string
		organizations int64
		states        []sweep.DomainState
		confirmed     time.Time
		open          bool
	}{
		{"more than 5 % are newly gone", 399, many(20, fresh), time.Time{}, true},
		{"5 %", 400, many(20, fresh), time.Time{}, false},
		{"fewer than 20", 19, many(19, fresh), time.Time{}, false},
		{"all domains of one organization", 20, func() (all []sweep.DomainState) {
			for range 100 {
				all = append(all, fresh("org_1"))
			}
			return all
		}(), time.Time{}, false},
		{"gone for longer, and not yet due", 20, many(20, func(o string) sweep.DomainState { return absent(o, 5, 5) }), time.Time{}, false},
		{"too many are due at once", 20, many(20, due), time.Time{}, true},
		{"an operator has confirmed that they are gone", 20, many(20, due), day0.Add(time.Hour), false},
		{"these are others than the operator has confirmed", 20, many(20, fresh), day0.Add(time.Hour), true},
	} {
		t.Run(test.name, func(t *testing.T) {
			candidates, b, summary := decide(sweep.Evaluation{Organizations: test.organizations, Breaker: sweep.Breaker{Confirmed: test.confirmed}}, test.states...)
			if b.Open != test.open || test.open && (b.ID != "sweep" || b.Why == "" || !b.At.Equal(day0.Add(7*day+time.Hour))) {
				t.Errorf("breaker %+v, want open %t", b, test.open)
			}
			if !b.Confirmed.Equal(test.confirmed) {
				t.Errorf("confirmed %s, want %s", b.Confirmed, test.confirmed)
			}
			for _, c := range candidates {
				if test.open && c.Status == sweep.StatusDue && !strings.Contains(c.Held, "breaker") {
					t.Errorf("acted on: %+v", c)
				}
			}
			if test.open && summary.Acted != 0 {
				t.Errorf("summary %+v", summary)
			}
		})
	}
	t.Run("held back with others of their operator", func(t *testing.T) {
		_, b, summary := decide(sweep.Evaluation{Organizations: 20}, many(20, func(o string) sweep.DomainState {
			s := absent(o, 7, 8)
			s.Absence.Operator = "dns"
			return s
		})...)
		if b.Open || summary.Held != 20 {
			t.Errorf("breaker %+v, summary %+v: want them held, and the breaker closed", b, summary)
		}
	})
	t.Run("stays open", func(t *testing.T) {
		before := sweep.Breaker{ID: "before", Open: true, At: day0, Why: "so"}
		_, b, summary := decide(sweep.Evaluation{Organizations: 1000, Breaker: before}, due("org_1"))
		if b != before || summary.Acted != 0 || summary.Held != 1 {
			t.Errorf("breaker %+v, summary %+v", b, summary)
		}
	})
}

// TestTogether checks that domains of one name-server operator whose tokens are lost together
// are held back until an operator confirms the loss.
func TestTogether(t *testing.T) {
	of := func(operator string, earlier time.Duration) func(string) sweep.DomainState {
		return func(o string) sweep.DomainState {
			s := absent(o, 7, 8)
			s.Absence.Operator, s.Absence.Since = operator, s.Absence.Since.Add(-earlier)
			return s
		}
	}
	for _, test := range []struct {
		name      string
		states    []sweep.DomainState
		swept     int64 // domains of the operator
		confirmed time.Time
		held      int64
	}{
		{"five of fifty", many(5, of("dns", 0)), 50, time.Time{}, 5},
		{"five of fifty-one", many(5, of("dns", 0)), 51, time.Time{}, 0},
		{"four", many(4, of("dns", 0)), 4, time.Time{}, 0},
		{"five of an unknown number", many(5, of("dns", 0)), 0, time.Time{}, 5},
		{"five of an unknown operator", many(5, of("", 0)), 0, time.Time{}, 0},
		{"within a day and a half", append(many(4, of("dns", 0)), of("dns", 36*time.Hour)("org_9")), 10, time.Time{}, 5},
		{"not together", append(many(4, of("dns", 0)), of("dns", 36*time.Hour+time.Second)("org_9")), 10, time.Time{}, 0},
		{"of several operators", append(many(4, of("dns", 0)), of("other", 0)("org_9")), 10, time.Time{}, 0},
		{"confirmed", many(5, of("dns", 0)), 50, day0.Add(time.Second), 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, b, summary := decide(sweep.Evaluation{Organizations: 1000, Breaker: sweep.Breaker{Confirmed: test.confirmed}, Tally: map[string]int64{"operator:dns": test.swept}}, test.states...)
			if summary.Held != test.held || summary.Acted != int64(len(test.states))-test.held {
				t.Errorf("summary %+v, want %d held", summary, test.held)
			}
			if (b.ID == "sweep") != (test.held > 0) || b.Open {
				t.Errorf("breaker %+v", b)
			}
		})
	}
}

// TestOfThisSweep checks that a sweep does not act on a domain that it has not checked, nor on
// any domain if it ended early.
func TestOfThisSweep(t *testing.T) {
	candidates, _, summary := decide(sweep.Evaluation{Organizations: 9}, absent("org_1", 6, 7))
	if summary.Acted != 0 || summary.AtRisk != 1 || !candidates[0].Missed {
		t.Errorf("summary %+v, %+v by an earlier check", summary, candidates)
	}
	candidates, _, summary = decide(sweep.Evaluation{Organizations: 9, Early: "the list does not end"}, absent("org_1", 7, 8), absent("org_2", 6, 7))
	if summary.Acted != 0 || summary.Held != 1 || summary.Why != "the list does not end" || candidates[1].Missed {
		t.Errorf("summary %+v, %+v after half a sweep", summary, candidates)
	}
}

// TestMissed checks that a domain is missed if its last check was before the sweep or by a
// wrong clock, and not if a later sweep has checked it already.
func TestMissed(t *testing.T) {
	states := []sweep.DomainState{absent("org_0", 6, 3), absent("org_1", 7, 3), absent("org_2", 7, 3), absent("org_3", 7, 3)}
	states[2].Tick += 60
	states[3].Tick += int64((365 * day).Seconds())
	candidates, _, _ := decide(sweep.Evaluation{Organizations: 9}, states...)
	for i, want := range []bool{true, false, false, true} {
		if candidates[i].Missed != want {
			t.Errorf("%s is missed: %t, want %t", candidates[i].ID, candidates[i].Missed, want)
		}
	}
}

// TestBreakerOfOneOrganization checks that a sweep of one organization leaves the domains held
// back by a former sweep open for confirmation.
func TestBreakerOfOneOrganization(t *testing.T) {
	before := sweep.Breaker{ID: "nightly", Why: "five went together"}
	e := sweep.Evaluation{Breaker: before, Tick: day0.Unix(), Run: "one", Organizations: 1, At: day0}
	e.Add("ord_0", newly(absent("org_1", 0, 1)))
	if _, b, _ := e.Decide(); b != before {
		t.Errorf("breaker %+v, want %+v", b, before)
	}
	e = sweep.Evaluation{Breaker: before, Tick: day0.Unix(), Run: "next", Complete: true, Organizations: 1, At: day0}
	if _, b, _ := e.Decide(); b != (sweep.Breaker{}) {
		t.Errorf("breaker %+v after a sweep that has held nothing back", b)
	}
}

// TestPreview checks that without a tick each domain is assessed by the last sweep that
// checked it.
func TestPreview(t *testing.T) {
	e := sweep.Evaluation{Organizations: 9, Run: "last", At: day0.Add(9 * day), Tally: map[string]int64{"present": 5, "absent": 2, "unknown": 1}}
	e.Add("ord_0", absent("org_1", 8, 9))
	e.Add("ord_1", newly(absent("org_2", 7, 1)))
	candidates, _, summary := e.Decide()
	if candidates[0].Status != sweep.StatusDue || candidates[0].Missed || candidates[1].Status != sweep.StatusAtRisk {
		t.Errorf("candidates %+v", candidates)
	}
	want := sweep.Summary{Run: "last", At: day0.Add(9 * day), Organizations: 9, Present: 5, Absent: 2, Unknown: 1, Newly: 1, AtRisk: 1, Acted: 1}
	if summary != want {
		t.Errorf("summary %+v, want %+v", summary, want)
	}
}

// TestUnreadableCounts checks that domains with an unreadable state count as absent together
// with others, and hold back no action alone.
func TestUnreadableCounts(t *testing.T) {
	of := func(operator string) func(string) sweep.DomainState {
		return func(o string) sweep.DomainState {
			s := absent(o, 7, 8)
			s.Absence.Operator = operator
			return s
		}
	}
	for _, test := range []struct {
		name          string
		organizations int64
		states        []sweep.DomainState
		unreadable    int
		confirmed     bool
		open          bool
		held          int64
	}{
		{"alone", 100, nil, 100, false, false, 0},
		{"with domains that are not due", 100, many(5, func(o string) sweep.DomainState { return absent(o, 3, 2) }), 100, false, false, 0},
		{"too few", 100, many(10, of("")), 9, false, false, 0},
		{"enough", 100, many(10, of("")), 10, false, true, 10},
		{"newly gone", 100, many(19, func(o string) sweep.DomainState { return newly(absent(o, 7, 1)) }), 1, false, true, 0},
		{"confirmed", 100, many(10, of("")), 50, true, false, 0},
		{"a sweep of one organization", 1, many(1, of("")), 50, false, false, 0},
		{"of one operator", 100, many(4, of("dns")), 1, false, false, 4},
		{"of an operator of few domains", 100, many(3, of("small")), 10, false, false, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := sweep.Evaluation{Organizations: test.organizations, Tally: map[string]int64{"operator:dns": 20, "operator:small": 4}}
			if test.confirmed {
				e.Breaker.Confirmed = day0.Add(day)
			}
			for range test.unreadable {
				e.AddUnreadable()
			}
			_, breaker, summary := decide(e, test.states...)
			if breaker.Open != test.open || summary.Held != test.held || summary.Unreadable != int64(test.unreadable) {
				t.Errorf("breaker %+v, summary %+v", breaker, summary)
			}
			if test.held > 0 && !strings.Contains(summary.Why, "whose state cannot be read") || summary.Why == "" {
				t.Errorf("why %q", summary.Why)
			}
		})
	}
}
