package tasks_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"orgops/tasks"
)

var day0 = time.Date(2026, 11, 1, 3, 0, 0, 0, time.UTC)

// gone is what is remembered of a domain whose token is gone from day0 on, at the
// sweep of so many days later.
func gone(organization string, days, checks int) tasks.Memory {
	at := day0.Add(time.Duration(days) * 24 * time.Hour)
	return tasks.Memory{
		V: 1, OrganizationID: organization, Domain: organization + ".example", State: "absent", Tick: at.Unix(), At: at,
		Absence: &tasks.Absence{Since: day0, Tick: day0.Unix(), Last: at, LastTick: at.Unix(), Checks: checks},
	}
}

func TestDecide(t *testing.T) {
	for _, test := range []struct {
		name  string
		rules tasks.Rules
		m     func(*tasks.Memory)
		as    string
	}{
		{"gone for the grace", tasks.Rules{}, func(*tasks.Memory) {}, tasks.StandsDue},
		{"there", tasks.Rules{}, func(m *tasks.Memory) { m.Absence = nil }, tasks.StandsWell},
		{"a second before the grace", tasks.Rules{}, func(m *tasks.Memory) { m.Absence.Last = m.Absence.Last.Add(-time.Second) }, tasks.StandsAtRisk},
		{"a worker's clock ahead", tasks.Rules{}, func(m *tasks.Memory) {
			m.Absence.LastTick, m.Absence.Last = day0.Unix()+7200, m.Absence.Last.Add(30*24*time.Hour)
		}, tasks.StandsAtRisk},
		{"a worker's clock behind", tasks.Rules{}, func(m *tasks.Memory) {
			m.Absence.LastTick, m.Absence.Since = day0.Unix()+7200, day0.Add(-30*24*time.Hour)
		}, tasks.StandsAtRisk},
		{"two checks", tasks.Rules{}, func(m *tasks.Memory) { m.Absence.Checks = 2 }, tasks.StandsAtRisk},
		{"more checks are asked for", tasks.Rules{AbsentChecks: 9}, func(*tasks.Memory) {}, tasks.StandsAtRisk},
		{"a longer grace", tasks.Rules{Grace: 8 * 24 * time.Hour}, func(*tasks.Memory) {}, tasks.StandsAtRisk},
		{"nobody could say last", tasks.Rules{}, func(m *tasks.Memory) { m.State = "unknown" }, tasks.StandsUnsure},
		{"protected organization", tasks.Rules{Protect: []string{"org_1"}}, func(*tasks.Memory) {}, tasks.StandsProtected},
		{"protected domain", tasks.Rules{Protect: []string{"ORG_1.example."}}, func(*tasks.Memory) {}, tasks.StandsProtected},
		{"protected above", tasks.Rules{Protect: []string{"example"}}, func(*tasks.Memory) {}, tasks.StandsProtected},
		{"another is protected", tasks.Rules{Protect: []string{"g_1.example", "org"}}, func(*tasks.Memory) {}, tasks.StandsDue},
		{"reported", tasks.Rules{}, func(m *tasks.Memory) { m.Absence.Reported = day0 }, tasks.StandsReported},
		{"reported, and now there is more to do", tasks.Rules{Action: tasks.ActPending}, func(m *tasks.Memory) { m.Absence.Reported = day0 }, tasks.StandsDue},
		{"reported, and there is more to do, but the record omits its flag", tasks.Rules{Action: tasks.ActPending}, func(m *tasks.Memory) {
			m.Absence.Reported, m.FlagOmitted = day0, true
		}, tasks.StandsReported},
		{"reported, as the record omitted its flag", tasks.Rules{Action: tasks.ActUnroute}, func(m *tasks.Memory) {
			m.Absence.Reported, m.Absence.ReportedAs = day0, tasks.ActReport
		}, tasks.StandsDue},
		{"not reported, and the record omits its flag", tasks.Rules{Action: tasks.ActUnroute}, func(m *tasks.Memory) { m.FlagOmitted = true }, tasks.StandsDue},
		{"taken", tasks.Rules{Action: tasks.ActPending}, func(m *tasks.Memory) { m.Taken = &tasks.Acting{Action: tasks.ActPending} }, tasks.StandsTaken},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := gone("org_1", 7, 8)
			test.m(&m)
			if got := test.rules.Decide(m); got.As != test.as {
				t.Errorf("it stands as %s (%s), want %s", got.As, got.Why, test.as)
			}
		})
	}
}

// sit judges the memories at the sweep of the seventh day.
func sit(s tasks.Sitting, memories ...tasks.Memory) (cases []tasks.Case, b tasks.Breaker, j tasks.Judged) {
	s.Whole = s.Early == ""
	s.Tick, s.Run, s.At = day0.Add(7*24*time.Hour).Unix(), "sweep", day0.Add(7*24*time.Hour+time.Hour)
	for i, m := range memories {
		s.Add(fmt.Sprintf("ord_%d", i), m)
	}
	return s.Decide()
}

// newly makes the absence one of this sweep.
func newly(m tasks.Memory) tasks.Memory {
	m.Absence = &tasks.Absence{Since: m.At, Tick: m.Tick, Last: m.At, LastTick: m.Tick, Checks: 1}
	return m
}

func many(n int, of func(organization string) tasks.Memory) (all []tasks.Memory) {
	for i := range n {
		all = append(all, of(fmt.Sprintf("org_%d", i)))
	}
	return all
}

func TestBreaker(t *testing.T) {
	fresh := func(o string) tasks.Memory { return newly(gone(o, 7, 1)) }
	due := func(o string) tasks.Memory { return gone(o, 7, 8) }
	for _, test := range []struct {
		name          string
		organizations int64
		memories      []tasks.Memory
		confirmed     time.Time
		open          bool
	}{
		{"more than 5 % are newly gone", 399, many(20, fresh), time.Time{}, true},
		{"5 %", 400, many(20, fresh), time.Time{}, false},
		{"fewer than 20", 19, many(19, fresh), time.Time{}, false},
		{"all domains of one organization", 20, func() (all []tasks.Memory) {
			for range 100 {
				all = append(all, fresh("org_1"))
			}
			return all
		}(), time.Time{}, false},
		{"gone for longer, and not yet due", 20, many(20, func(o string) tasks.Memory { return gone(o, 5, 5) }), time.Time{}, false},
		{"too many are due at once", 20, many(20, due), time.Time{}, true},
		{"an operator has said that they are gone", 20, many(20, due), day0.Add(time.Hour), false},
		{"these are others than the operator spoke of", 20, many(20, fresh), day0.Add(time.Hour), true},
	} {
		t.Run(test.name, func(t *testing.T) {
			cases, b, j := sit(tasks.Sitting{Organizations: test.organizations, Breaker: tasks.Breaker{Confirmed: test.confirmed}}, test.memories...)
			if b.Open != test.open || test.open && (b.ID != "sweep" || b.Why == "") {
				t.Errorf("breaker %+v, want open %t", b, test.open)
			}
			for _, c := range cases {
				if test.open && c.As == tasks.StandsDue && !strings.Contains(c.Held, "breaker") {
					t.Errorf("acted on: %+v", c)
				}
			}
			if test.open && j.Acted != 0 {
				t.Errorf("judged %+v", j)
			}
		})
	}
	t.Run("held back with others of their operator", func(t *testing.T) {
		_, b, j := sit(tasks.Sitting{Organizations: 20}, many(20, func(o string) tasks.Memory {
			m := gone(o, 7, 8)
			m.Absence.Operator = "dns"
			return m
		})...)
		if b.Open || j.Held != 20 {
			t.Errorf("breaker %+v, judged %+v: want them held, and the breaker closed", b, j)
		}
	})
	t.Run("stays open", func(t *testing.T) {
		before := tasks.Breaker{ID: "before", Open: true, At: day0, Why: "so"}
		_, b, j := sit(tasks.Sitting{Organizations: 1000, Breaker: before}, due("org_1"))
		if b != before || j.Acted != 0 || j.Held != 1 {
			t.Errorf("breaker %+v, judged %+v", b, j)
		}
	})
}

// TestTogether: domains of one name-server operator that went absent together are held
// back, until somebody says that they are gone.
func TestTogether(t *testing.T) {
	of := func(operator string, after time.Duration) func(string) tasks.Memory {
		return func(o string) tasks.Memory {
			m := gone(o, 7, 8)
			m.Absence.Operator, m.Absence.Since = operator, m.Absence.Since.Add(-after)
			return m
		}
	}
	for _, test := range []struct {
		name      string
		memories  []tasks.Memory
		watched   int64
		confirmed time.Time
		held      int64
	}{
		{"five of fifty", many(5, of("dns", 0)), 50, time.Time{}, 5},
		{"five of fifty-one", many(5, of("dns", 0)), 51, time.Time{}, 0},
		{"four", many(4, of("dns", 0)), 4, time.Time{}, 0},
		{"five of nobody knows how many", many(5, of("dns", 0)), 0, time.Time{}, 5},
		{"five whose operator is not known", many(5, of("", 0)), 0, time.Time{}, 0},
		{"within a day and a half", append(many(4, of("dns", 0)), of("dns", 36*time.Hour)("org_9")), 10, time.Time{}, 5},
		{"not together", append(many(4, of("dns", 0)), of("dns", 36*time.Hour+time.Second)("org_9")), 10, time.Time{}, 0},
		{"of several operators", append(many(4, of("dns", 0)), of("other", 0)("org_9")), 10, time.Time{}, 0},
		{"confirmed", many(5, of("dns", 0)), 50, day0.Add(time.Second), 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, b, j := sit(tasks.Sitting{Organizations: 1000, Breaker: tasks.Breaker{Confirmed: test.confirmed}, Tally: map[string]int64{"operator:dns": test.watched}}, test.memories...)
			if j.Held != test.held || j.Acted != int64(len(test.memories))-test.held {
				t.Errorf("judged %+v, want %d held", j, test.held)
			}
			if (b.ID == "sweep") != (test.held > 0) || b.Open {
				t.Errorf("breaker %+v", b)
			}
		})
	}
}

// TestOfThisSweep: what the sweep has not looked at, or not at everything, is not acted on.
func TestOfThisSweep(t *testing.T) {
	if _, _, j := sit(tasks.Sitting{Organizations: 9}, gone("org_1", 6, 7)); j.Acted != 0 {
		t.Errorf("judged %+v by an earlier look", j)
	}
	if _, _, j := sit(tasks.Sitting{Organizations: 9, Early: "the list does not end"}, gone("org_1", 7, 8)); j.Acted != 0 || j.Held != 1 {
		t.Errorf("judged %+v after half a sweep", j)
	}
}

// TestBreakerOfOneOrganization: a sweep of one organization leaves what a former one has
// held back to be confirmed.
func TestBreakerOfOneOrganization(t *testing.T) {
	before := tasks.Breaker{ID: "nightly", Why: "five went together"}
	s := tasks.Sitting{Breaker: before, Tick: day0.Unix(), Run: "one", Organizations: 1, At: day0}
	s.Add("ord_0", newly(gone("org_1", 0, 1)))
	if _, b, _ := s.Decide(); b != before {
		t.Errorf("breaker %+v, want %+v", b, before)
	}
	s = tasks.Sitting{Breaker: before, Tick: day0.Unix(), Run: "next", Whole: true, Organizations: 1, At: day0}
	if _, b, _ := s.Decide(); b != (tasks.Breaker{}) {
		t.Errorf("breaker %+v after a sweep that has held nothing back", b)
	}
}

// TestTickOfAWrongClock: what was remembered by a clock that was a year ahead does not
// stand in the way of what is seen now.
func TestTickOfAWrongClock(t *testing.T) {
	w := newWorld(t, actingBy(tasks.ActPending))
	w.verified(new(true))
	w.clock.advance(365 * 24 * time.Hour)
	w.days(1)
	w.clock.advance(-366 * 24 * time.Hour)
	w.days(1)
	if m := w.memory(dom); m.Tick != newWorldTime.Unix() {
		t.Errorf("remembered of tick %d, want %d", m.Tick, newWorldTime.Unix())
	}
	w.days(7)
	if d := w.domain(org, dom); d.Status != "pending" {
		t.Errorf("it is %s after a grace", d.Status)
	}
}
