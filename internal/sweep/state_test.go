package sweep_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"orgops/dnscheck"
	"orgops/dnscheck/report"
	"orgops/internal/discovery"
	"orgops/internal/events"
	"orgops/internal/scan/progress"
	"orgops/internal/sweep"
)

const host, txt = "_check.org_1.example", "token-1"

// observed returns an observation of the domain ord_1 by the sweep of that tick.
func observed(at time.Time, state dnscheck.State) sweep.Observation {
	v := dnscheck.Verdict{State: state, Host: host}
	switch state {
	case dnscheck.Absent:
		v.Reason = dnscheck.ReasonNoRecord
	case dnscheck.Unknown:
		v.Reason = dnscheck.ReasonTimeout
	}
	return sweep.Observation{
		Domain: discovery.Domain{OrganizationID: "org_1", ID: "ord_1", Name: "org_1.example", Host: host, TXT: txt,
			Flag: new(true)},
		Tick: at.Unix(), Verdict: v, At: at.Add(time.Minute),
	}
}

// proven returns the state of the domain ord_1 whose token was proven before day0.
func proven() sweep.DomainState {
	return sweep.DomainState{V: 1, OrganizationID: "org_1", Domain: "org_1.example", TokenHash: sweep.HashToken(host, txt),
		Proven: &sweep.Proof{At: day0.Add(-day), Evidence: []byte("proof")}}
}

// observe observes the domain once a day, from day0 on.
func observe(s sweep.DomainState, from int, all ...dnscheck.State) sweep.DomainState {
	for i, state := range all {
		s, _ = s.Observe(observed(day0.Add(time.Duration(from+i)*day), state), sweep.Rules{})
	}
	return s
}

func types(all []events.Event) string {
	var of []string
	for _, e := range all {
		of = append(of, e.Type)
	}
	return strings.Join(of, " ")
}

func past(s sweep.DomainState) string {
	var of []string
	for _, e := range s.History {
		of = append(of, e.What)
	}
	return strings.Join(of, ", ")
}

func TestObservePresent(t *testing.T) {
	s := observe(sweep.DomainState{}, 0, dnscheck.Present, dnscheck.Present, dnscheck.Present)
	want := sweep.DomainState{
		V: 1, OrganizationID: "org_1", Domain: "org_1.example", TokenHash: sweep.HashToken(host, txt),
		Tick: day0.Add(2 * day).Unix(), Sweeps: 3, State: "present", At: day0.Add(2*day + time.Minute),
		FirstPresent: day0.Add(time.Minute), LastPresent: day0.Add(2*day + time.Minute),
	}
	if diff := cmp.Diff(want, s); diff != "" {
		t.Errorf("state (-want +got):\n%s", diff)
	}
	if s.Watched() {
		t.Error("a domain whose token is present is watched")
	}
}

// TestProven checks that the first proof of a token is kept, until the domain has another token or
// belongs to another organization.
func TestProven(t *testing.T) {
	o := observed(day0, dnscheck.Present)
	s, _ := sweep.DomainState{}.Observe(o, sweep.Rules{})
	if s.Proven != nil {
		t.Fatalf("proven by %+v without a proof", s.Proven)
	}
	o = observed(day0.Add(day), dnscheck.Present)
	o.Proof = []byte("first")
	s, _ = s.Observe(o, sweep.Rules{})
	want := &sweep.Proof{At: day0.Add(day + time.Minute), Evidence: []byte("first")}
	later := observed(day0.Add(2*day), dnscheck.Present)
	later.Proof = []byte("second")
	after, _ := s.Observe(later, sweep.Rules{})
	after = observe(after, 3, dnscheck.Absent, dnscheck.Unknown, dnscheck.Present)
	for name, s := range map[string]sweep.DomainState{"at once": s, "later": after} {
		if diff := cmp.Diff(want, s.Proven); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	for name, change := range map[string]func(*sweep.Observation){
		"token":        func(o *sweep.Observation) { o.TXT = "token-2" },
		"host":         func(o *sweep.Observation) { o.Host = "_other.org_1.example" },
		"organization": func(o *sweep.Observation) { o.OrganizationID = "org_2" },
	} {
		o := observed(day0.Add(9*day), dnscheck.Absent)
		change(&o)
		if other, _ := after.Observe(o, sweep.Rules{}); other.Proven != nil {
			t.Errorf("another %s: proven by %+v", name, other.Proven)
		}
	}
}

// TestUnproven checks that a domain whose token was never proven is never lost, however long it is
// absent, also if a check has seen the token. Nobody is notified of it.
func TestUnproven(t *testing.T) {
	for name, s := range map[string]sweep.DomainState{
		"never seen": {}, "seen": observe(sweep.DomainState{}, -1, dnscheck.Present),
	} {
		t.Run(name, func(t *testing.T) {
			for d := range 30 {
				var counted []string
				s, counted = s.Observe(observed(day0.Add(time.Duration(d)*day), dnscheck.Absent), sweep.Rules{})
				want := "absent unproven"
				if d < 7 {
					want = "absent"
				}
				if got := strings.Join(counted, " "); got != want || s.IsLost() || (sweep.Rules{}).Unproven(s) != (d >= 7) {
					t.Fatalf("day %d: counted %q, want %q; lost %t", d, got, want, s.IsLost())
				}
				if why := (sweep.Rules{}).Unfit(s, s.Tick); !strings.Contains(why, "unproven") {
					t.Fatalf("day %d: unfit %q", d, why)
				}
			}
			if s = observe(s, 30, dnscheck.Present); s.Watched() || len(s.Pending) > 0 {
				t.Errorf("there again: %+v", s)
			}
		})
	}
}

// TestObserveAbsent checks that the first absent check starts an absence, with an event, and that
// each sweep counts once. TestEventsNameTheMistake: the events of an absence have the name of the
// mistake with the record, as that of an expired row has, and its remedy.
func TestEventsNameTheMistake(t *testing.T) {
	s := proven()
	mislaid := &report.Finding{Mistake: report.MistakeApex, Host: "org_1.example"}
	for days := range 9 {
		o := observed(day0.Add(time.Duration(days)*day), dnscheck.Absent)
		o.Finding = mislaid
		s, _ = s.Observe(o, sweep.Rules{})
	}
	if types(s.Pending) != "domain.at_risk domain.lost" || s.Mistake != "at_domain" || s.Sentence != mislaid.Advice(host) {
		t.Fatalf("state %+v", s)
	}
	for _, e := range s.Pending {
		if e.Data.Mistake != "at_domain" || !strings.HasSuffix(e.Data.Reason, mislaid.Advice(host)) {
			t.Errorf("%s: %+v", e.Type, e.Data)
		}
	}
	if s = observe(s, 9, dnscheck.Absent); s.Mistake != "" || strings.Contains(s.Sentence, "The record is at") {
		t.Errorf("the mistake of an earlier sweep: %+v", s)
	}
}

func TestObserveAbsent(t *testing.T) {
	s := observe(proven(), 0, dnscheck.Present, dnscheck.Absent, dnscheck.Absent, dnscheck.Absent)
	since := day0.Add(day)
	want := &sweep.Absence{
		Since: since.Add(time.Minute), Tick: since.Unix(), Last: since.Add(2*day + time.Minute),
		LastTick: since.Add(2 * day).Unix(), Checks: 3,
	}
	if diff := cmp.Diff(want, s.Absence); diff != "" {
		t.Errorf("absence (-want +got):\n%s", diff)
	}
	if !s.Watched() || s.State != "absent" || s.Reason != string(dnscheck.ReasonNoRecord) ||
		!strings.Contains(s.Sentence, host) || past(s) != "gone" || s.AbsentFor() != 2*day {
		t.Errorf("state %+v", s)
	}
	event := []events.Event{{
		ID: fmt.Sprintf("domain.at_risk-ord_1-%d", since.Unix()+60), Type: events.DomainAtRisk, At: since.Add(time.Minute),
		Data: events.Data{
			OrganizationID: "org_1", DiscoveryDomainID: "ord_1", Domain: "org_1.example", Tick: since.Unix(), Reason: s.Sentence,
			Since: since.Add(time.Minute),
		},
	}}
	if diff := cmp.Diff(event, s.Pending); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	back := observe(s, 4, dnscheck.Present)
	if back.Absence != nil || back.Watched() || types(back.Pending) != "domain.at_risk domain.found" ||
		past(back) != "gone, there again" {
		t.Errorf("state %+v", back)
	}
	if s.Absence.Checks != 3 || len(s.History) != 1 {
		t.Errorf("the former state was modified: %+v", s)
	}
}

// TestOneObservationATick checks that of a present or past tick no second observation counts.
func TestOneObservationATick(t *testing.T) {
	s, counted := sweep.DomainState{}.Observe(observed(day0, dnscheck.Absent), sweep.Rules{})
	if strings.Join(counted, " ") != "absent" {
		t.Errorf("counted %q", counted)
	}
	for _, state := range []dnscheck.State{dnscheck.Absent, dnscheck.Present, dnscheck.Unknown} {
		for _, tick := range []int64{0, -1, -86400} {
			o := observed(day0, state)
			o.Tick, o.At = o.Tick+tick, o.At.Add(time.Hour)
			after, counted := s.Observe(o, sweep.Rules{})
			if diff := cmp.Diff(s, after); diff != "" || counted != nil {
				t.Errorf("%s at tick %d: counted %q, state (-want +got):\n%s", state, tick, counted, diff)
			}
		}
	}
}

// TestTickOfAWrongClock checks that a state stored by a clock that was a year ahead neither
// blocks later sweeps nor lengthens an absence.
func TestTickOfAWrongClock(t *testing.T) {
	s := observe(proven(), 365, dnscheck.Absent)
	s = observe(s, 0, dnscheck.Absent)
	if s.Tick != day0.Unix() || s.Absence.Tick != day0.Unix() || s.Absence.Checks != 1 {
		t.Fatalf("state %+v of tick %d", s.Absence, s.Tick)
	}
	for d := 1; d < 7; d++ {
		if s = observe(s, d, dnscheck.Absent); s.IsLost() {
			t.Fatalf("day %d: %+v", d, s.Absence)
		}
	}
	if s = observe(s, 7, dnscheck.Absent); !s.IsLost() {
		t.Errorf("%+v after the grace period", s.Absence)
	}
}

// TestLost checks that a domain is lost once, by the sweep that completes count and grace, and that
// each later sweep which finds it absent counts it as lost.
func TestLost(t *testing.T) {
	rules := sweep.Rules{Grace: 2 * day, AbsentChecks: 2}
	s := proven()
	for d, want := range []string{"absent", "absent", "absent lost", "absent lost", "unknown", "absent lost", "present"} {
		state := map[string]dnscheck.State{"absent": dnscheck.Absent, "unknown": dnscheck.Unknown,
			"present": dnscheck.Present}[strings.Fields(want)[0]]
		var counted []string
		before := s.Clone()
		s, counted = s.Observe(observed(day0.Add(time.Duration(d)*day), state), rules)
		if got := strings.Join(counted, " "); got != want || s.IsLost() != (want == "absent lost") {
			t.Errorf("day %d: counted %q, lost %t; want %q", d, got, s.IsLost(), want)
		}
		if d == 2 && !before.Absence.Lost.IsZero() {
			t.Error("the former state was modified")
		}
	}
	if types(s.Pending) != "domain.at_risk domain.lost domain.found" || past(s) != "gone, lost, there again" ||
		s.Watched() {
		t.Errorf("state %+v", s)
	}
	lost := s.Pending[1]
	if !lost.Data.Since.Equal(day0.Add(time.Minute)) || !lost.At.Equal(day0.Add(2*day+time.Minute)) ||
		!strings.Contains(lost.Data.Reason, "3 sweeps have found it gone, over 2.0 days") || lost.Data.Action != "" {
		t.Errorf("event %+v", lost)
	}
}

// TestAnotherToken checks that no check of another host or token counts. A revocation can still
// be undone, unless the domain belongs to another organization now.
func TestAnotherToken(t *testing.T) {
	s := observe(proven(), 0, dnscheck.Present, dnscheck.Absent, dnscheck.Absent)
	s.Operator = "dns"
	o := observed(day0.Add(3*day), dnscheck.Absent)
	o.Host = strings.ToUpper(host) + "."
	if after, _ := s.Observe(o, sweep.Rules{}); after.Absence == nil || after.Absence.Checks != 3 {
		t.Errorf("state %+v: want the same host, in capitals", after)
	}
	s.Revoked = &sweep.Revocation{Set: sweep.Unroute}
	o = observed(day0.Add(3*day), dnscheck.Absent)
	o.TXT = "token-2"
	after, _ := s.Observe(o, sweep.Rules{})
	if after.Absence != nil || !after.FirstPresent.IsZero() || after.Sweeps != 1 || after.Revoked == nil ||
		after.TokenHash != sweep.HashToken(host, "token-2") || after.Operator != "dns" ||
		past(after) != "gone, another token" || types(after.Pending) != "domain.at_risk" {
		t.Errorf("state %+v", after)
	}
	o.OrganizationID = "org_2"
	if after, _ = s.Observe(o, sweep.Rules{}); after.Revoked != nil || after.OrganizationID != "org_2" ||
		after.Absence == nil || after.Absence.Checks != 1 {
		t.Errorf("state %+v", after)
	}
}

// TestRevoked checks that an absence after a revocation counts nothing, and that the token's
// return is not yet a restoration.
func TestRevoked(t *testing.T) {
	s := observe(proven(), 0, dnscheck.Absent, dnscheck.Absent)
	since := s.Absence.Since
	s.Revoked = &sweep.Revocation{Set: sweep.SetPending, Run: "run1", At: day0.Add(day), Since: since,
		Flag: true, Verdict: []byte("why")}
	before := s.Clone()
	s.RevokedAt(day0.Add(day + time.Minute))
	if !s.IsPending() || s.Absence != nil || s.Revoked.Verdict != nil ||
		!s.Revoked.EffectiveAt().Equal(day0.Add(day+time.Minute)) || types(s.Pending) != "domain.at_risk" || !s.Watched() {
		t.Errorf("state %+v", s)
	}
	if !before.Revoked.DoneAt.IsZero() || !before.Revoked.EffectiveAt().Equal(day0.Add(day)) {
		t.Errorf("the former state was modified: %+v", before.Revoked)
	}
	if last := s.History[len(s.History)-1]; last.What != "revoked: pending" || last.Why != "by run run1" ||
		string(last.Verdict) != "why" {
		t.Errorf("history %+v", s.History)
	}
	s = observe(s, 2, dnscheck.Absent, dnscheck.Present)
	if s.Absence != nil || s.Revoked == nil || types(s.Pending) != "domain.at_risk" {
		t.Errorf("state %+v", s)
	}
	cleared := s.Clone()
	if cleared.Clear(day0, "pending", "someone else"); cleared.Watched() || past(cleared) != past(s)+", pending" {
		t.Errorf("state %+v", cleared)
	}
	s.Restored("ord_1", day0.Add(4*day), []byte("proof"))
	if s.Watched() || !s.RestoredAt(day0.Add(4*day)) || s.RestoredAt(day0.Add(5*day)) ||
		types(s.Pending) != "domain.at_risk domain.found" {
		t.Errorf("state %+v", s)
	}
	if last := s.Pending[1].Data; last.Action != "pending" || !last.Since.Equal(since) {
		t.Errorf("event %+v", last)
	}
}

// TestHistory checks that the last entries are retained, and that texts are cut.
func TestHistory(t *testing.T) {
	var s sweep.DomainState
	for i := range 25 {
		s.Note(day0.Add(time.Duration(i)*day), fmt.Sprintf("entry %d", i), strings.Repeat("ä", 500))
	}
	if len(s.History) != 20 || s.History[0].What != "entry 5" || len([]rune(s.History[0].Why)) != 400 {
		t.Errorf("%d entries, the first %+v", len(s.History), s.History[0])
	}
}

// TestValues checks that published values are quoted, truncated and listed once each.
func TestValues(t *testing.T) {
	o := observed(day0, dnscheck.Absent)
	o.Verdict.Observations = []dnscheck.Observation{
		{Values: []string{"a\x00\u202e", strings.Repeat("b", 5000)}}, {Values: []string{"a\x00\u202e", "c", "d"}},
	}
	s, _ := sweep.DomainState{}.Observe(o, sweep.Rules{})
	want := []string{`"a\x00\u202e"`, `"` + strings.Repeat("b", 100) + `"…`, `"c"`}
	if diff := cmp.Diff(want, s.Values); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
	if s = observe(s, 1, dnscheck.Present); s.Values != nil || s.Sentence != "" {
		t.Errorf("state %+v", s)
	}
}

// TestCountedOperator checks that each observation of a tick counts for its operator, if that
// was ever known.
func TestCountedOperator(t *testing.T) {
	o := observed(day0, dnscheck.Present)
	o.Operator = "dns"
	s, counted := sweep.DomainState{}.Observe(o, sweep.Rules{})
	if !slices.Equal(counted, []string{"present", "operator:dns"}) {
		t.Errorf("counted %q", counted)
	}
	s, counted = s.Observe(observed(day0.Add(day), dnscheck.Absent), sweep.Rules{})
	if !slices.Equal(counted, []string{"absent", "operator:dns"}) || s.Absence.Operator != "dns" {
		t.Errorf("counted %q, absence %+v", counted, s.Absence)
	}
}

// TestObserveOmittedFlag checks that the state reports whether the last record read by a sweep
// omits its flag, for every result of the check.
func TestObserveOmittedFlag(t *testing.T) {
	var s sweep.DomainState
	for i, state := range []dnscheck.State{dnscheck.Present, dnscheck.Absent, dnscheck.Unknown} {
		for _, omitted := range []bool{true, false, true} {
			o := observed(day0.Add(time.Duration(i)*day), state)
			o.Tick = s.Tick + 60
			if omitted {
				o.Flag = nil
			}
			if s, _ = s.Observe(o, sweep.Rules{}); s.FlagOmitted != omitted {
				t.Errorf("%s: omitted %t, want %t", state, s.FlagOmitted, omitted)
			}
		}
	}
}

// storedState has every member.
const storedState = `{"v":1,"organization_id":"org_1","domain":"a.example","token":"0011223344556677","tick":1795309200,"sweeps":12,` +
	`"state":"absent","reason":"no_record","sentence":"There is none.","values":["\"x\""],"operator":"dns","at":"2026-11-22T01:02:03Z","flag_omitted":true,` +
	`"first_present":"2026-11-01T03:00:00Z","last_present":"2026-11-10T03:00:00Z",` +
	`"absence":{"since":"2026-11-11T03:00:00Z","tick":1794366000,"last":"2026-11-22T01:02:03Z","last_tick":1795309200,"checks":11,"operator":"dns","lost":"2026-11-20T03:00:00Z"},` +
	`"revoked":{"set":"unroute","run":"run1","at":"2026-11-22T01:02:04Z","since":"2026-11-11T03:00:00Z","flag":true,"done_at":"2026-11-22T01:02:05Z","verdict":"d2h5"},` +
	`"pending":[{"ID":"domain.lost-ord_1-1795309324","Type":"domain.lost","At":"2026-11-22T01:02:04Z","Data":{"tenant":"","organization_id":"org_1","discovery_domain_id":"ord_1","domain":"a.example","tick":1795309200,"reason":"r","since":"2026-11-11T03:00:00Z"}}],` +
	`"history":[{"at":"2026-11-11T03:00:00Z","what":"gone","why":"There is none."},{"at":"2026-11-22T01:02:04Z","what":"revoked: pending","verdict":"d2h5"}]}`

// TestStoredState checks the JSON documents, and that others are refused.
func TestStoredState(t *testing.T) {
	s, err := sweep.ReadState([]byte(storedState))
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(s)
	if diff := cmp.Diff(storedState, string(got)); diff != "" || err != nil {
		t.Errorf("%v, state (-want +got):\n%s", err, diff)
	}
	for _, bad := range []string{`{"v":2}`, `{"v":1,"tick":"x"}`, ``, `[]`} {
		if _, err := sweep.ReadState([]byte(bad)); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}

func TestStoredResults(t *testing.T) {
	for want, into := range map[string]any{
		`{"tick":1795309200,"run":"s","ended_at":"2026-11-22T01:02:03Z","organizations":1,"present":2,"absent":3,"unknown":4,"lost":1,"unproven":5}`:                                                  new(sweep.Summary),
		`{"organization_id":"org_1","tick":1,"spread_until":2,"verify_pending":true,"organizations_read":3,"organizations_gone":4,"organizations_missed":5,"why":"w","ended_early":"e","ended":true}`: new(progress.Scan),
		`{"organizations_read":0}`: new(progress.Scan),
		`{"organization_id":"org_1","discovery_domain_id":"ord_1","set":"unroute","absent_for_ns":1,"sweeps":2,"max":3,"undo":true}`: new(sweep.RevokeRow),
	} {
		err := json.Unmarshal([]byte(want), into)
		got, other := json.Marshal(into)
		if err != nil || other != nil || string(got) != want {
			t.Errorf("%v, %v: %s, want %s", err, other, got, want)
		}
	}
}
