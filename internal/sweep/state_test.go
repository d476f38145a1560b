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
	"orgops/internal/events"
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
		DomainID: "ord_1", OrganizationID: "org_1", Domain: "org_1.example", Host: host, TXT: txt, Tick: at.Unix(), Verdict: v, At: at.Add(time.Minute),
	}
}

// observe observes the domain once a day, from day0 on.
func observe(s sweep.DomainState, from int, all ...dnscheck.State) sweep.DomainState {
	for i, state := range all {
		s, _ = s.Observe(observed(day0.Add(time.Duration(from+i)*day), state))
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
		V: 1, OrganizationID: "org_1", Domain: "org_1.example", TokenHash: sweep.HashToken(host, txt), Host: host, TXT: txt,
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

// TestObserveAbsent checks that the first absent check starts an absence, with an event, and
// that each sweep counts once.
func TestObserveAbsent(t *testing.T) {
	s := observe(sweep.DomainState{}, 0, dnscheck.Present, dnscheck.Absent, dnscheck.Absent, dnscheck.Absent)
	since := day0.Add(day)
	want := &sweep.Absence{
		Since: since.Add(time.Minute), Tick: since.Unix(), Last: since.Add(2*day + time.Minute), LastTick: since.Add(2 * day).Unix(), Checks: 3,
	}
	if diff := cmp.Diff(want, s.Absence); diff != "" {
		t.Errorf("absence (-want +got):\n%s", diff)
	}
	if !s.Watched() || s.State != "absent" || s.Reason != string(dnscheck.ReasonNoRecord) || !strings.Contains(s.Sentence, host) || past(s) != "gone" || s.AbsentFor() != 2*day {
		t.Errorf("state %+v", s)
	}
	event := []events.Event{{
		ID: fmt.Sprintf("domain.at_risk-ord_1-%d", since.Unix()+60), Type: events.DomainAtRisk, At: since.Add(time.Minute),
		Data: events.Data{
			OrganizationID: "org_1", DiscoveryDomainID: "ord_1", Domain: "org_1.example", Tick: since.Unix(), Reason: s.Sentence, Since: since.Add(time.Minute),
		},
	}}
	if diff := cmp.Diff(event, s.Pending); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	back := observe(s, 4, dnscheck.Present)
	if back.Absence != nil || back.Watched() || types(back.Pending) != "domain.at_risk domain.restored" || past(back) != "gone, there again" {
		t.Errorf("state %+v", back)
	}
	if s.Absence.Checks != 3 || len(s.History) != 1 {
		t.Errorf("the former state was modified: %+v", s)
	}
}

// TestUnknownNeitherCountsNorClears checks that checks without an answer neither lengthen an
// absence nor restart the grace period.
func TestUnknownNeitherCountsNorClears(t *testing.T) {
	s := observe(sweep.DomainState{}, 0, dnscheck.Absent, dnscheck.Unknown, dnscheck.Unknown, dnscheck.Unknown, dnscheck.Unknown, dnscheck.Unknown, dnscheck.Unknown, dnscheck.Unknown, dnscheck.Unknown)
	if s.Absence == nil || s.Absence.Checks != 1 || s.AbsentFor() != 0 || s.State != "unknown" {
		t.Fatalf("state %+v", s)
	}
	s = observe(s, 9, dnscheck.Absent)
	if got := (sweep.Rules{}).Assess(s); got.Status != sweep.StatusAtRisk {
		t.Errorf("assessed %+v after two sweeps that found it absent", got)
	}
	s = observe(s, 10, dnscheck.Absent)
	if got := (sweep.Rules{}).Assess(s); got.Status != sweep.StatusDue {
		t.Errorf("assessed %+v after the third, ten days after the first", got)
	}
	if unknown := observe(sweep.DomainState{}, 0, dnscheck.Unknown); unknown.Watched() || len(unknown.Pending) > 0 {
		t.Errorf("a check without an answer began %+v", unknown)
	}
}

// TestOneObservationATick checks that of a present or past tick no second observation counts.
func TestOneObservationATick(t *testing.T) {
	s, counted := sweep.DomainState{}.Observe(observed(day0, dnscheck.Absent))
	if strings.Join(counted, " ") != "absent" {
		t.Errorf("counted %q", counted)
	}
	for _, state := range []dnscheck.State{dnscheck.Absent, dnscheck.Present, dnscheck.Unknown} {
		for _, tick := range []int64{0, -1, -86400} {
			o := observed(day0, state)
			o.Tick, o.At = o.Tick+tick, o.At.Add(time.Hour)
			after, counted := s.Observe(o)
			if diff := cmp.Diff(s, after); diff != "" || counted != nil {
				t.Errorf("%s at tick %d: counted %q, state (-want +got):\n%s", state, tick, counted, diff)
			}
		}
	}
}

// TestTickOfAWrongClock checks that a state stored by a clock that was a year ahead neither
// blocks later sweeps nor lengthens an absence.
func TestTickOfAWrongClock(t *testing.T) {
	s := observe(sweep.DomainState{}, 365, dnscheck.Absent)
	s = observe(s, 0, dnscheck.Absent)
	if s.Tick != day0.Unix() || s.Absence.Tick != day0.Unix() || s.Absence.Checks != 1 {
		t.Fatalf("state %+v of tick %d", s.Absence, s.Tick)
	}
	for d := 1; d < 7; d++ {
		if s = observe(s, d, dnscheck.Absent); (sweep.Rules{}).Assess(s).Status != sweep.StatusAtRisk {
			t.Fatalf("day %d: %+v", d, (sweep.Rules{}).Assess(s))
		}
	}
	if s = observe(s, 7, dnscheck.Absent); (sweep.Rules{}).Assess(s).Status != sweep.StatusDue {
		t.Errorf("%+v after the grace period", (sweep.Rules{}).Assess(s))
	}
}

// TestFoundBetween checks that a check between two sweeps clears an absence of its own token,
// and has no other effect.
func TestFoundBetween(t *testing.T) {
	absent := observe(sweep.DomainState{}, 0, dnscheck.Absent, dnscheck.Absent)
	at := day0.Add(day + time.Hour)
	after := absent.Clone()
	if same := after.FoundBetween("ord_1", absent, at); !same || after.Absence != nil || after.State != "absent" || after.Sweeps != 2 || after.Tick != absent.Tick ||
		types(after.Pending) != "domain.at_risk domain.restored" || !after.LastPresent.Equal(at) {
		t.Errorf("same %t, state %+v", same, after)
	}
	taken := absent.Clone()
	taken.Absence, taken.Taken, taken.FlagOmitted = nil, &sweep.ActionRequest{Action: sweep.Unroute}, true
	for _, test := range []struct {
		name    string
		state   sweep.DomainState
		checked func(*sweep.DomainState)
	}{
		{"another host or token", absent, func(s *sweep.DomainState) { s.TokenHash = sweep.HashToken("_check.org_1.example", "token-2") }},
		{"another organization", absent, func(s *sweep.DomainState) { s.OrganizationID = "org_2" }},
		{"a later sweep has checked", absent, func(s *sweep.DomainState) { s.Tick = day0.Unix() }},
		{"taken away", taken, nil},
		{"no state", sweep.DomainState{}, func(s *sweep.DomainState) { *s = absent }},
	} {
		after, checked := test.state.Clone(), test.state.Clone()
		if test.checked != nil {
			test.checked(&checked)
		}
		same := after.FoundBetween("ord_1", checked, at)
		if diff := cmp.Diff(test.state, after); diff != "" || same != (test.checked == nil) {
			t.Errorf("%s: same %t, state (-want +got):\n%s", test.name, same, diff)
		}
	}
}

// TestAnotherToken checks that no check of another host or token counts. The value taken from
// the domain can still be restored, unless it belongs to another organization now.
func TestAnotherToken(t *testing.T) {
	s := observe(sweep.DomainState{}, 0, dnscheck.Present, dnscheck.Absent, dnscheck.Absent)
	s.Operator = "dns"
	s.Taken, s.InProgress = &sweep.ActionRequest{Action: sweep.Unroute}, &sweep.ActionRequest{Action: sweep.Unroute, Back: true}
	o := observed(day0.Add(3*day), dnscheck.Absent)
	o.TXT = "token-2"
	after, _ := s.Observe(o)
	if after.Absence != nil || !after.FirstPresent.IsZero() || after.Sweeps != 1 || after.Taken == nil || after.InProgress == nil || after.TXT != "token-2" ||
		after.TokenHash != sweep.HashToken(host, "token-2") || after.Operator != "dns" || past(after) != "gone, another token" || types(after.Pending) != "domain.at_risk" {
		t.Errorf("state %+v", after)
	}
	o.OrganizationID = "org_2"
	if after, _ = s.Observe(o); after.Taken != nil || after.InProgress != nil || after.OrganizationID != "org_2" || after.Absence == nil || after.Absence.Checks != 1 {
		t.Errorf("state %+v", after)
	}
	o = observed(day0.Add(3*day), dnscheck.Absent)
	o.Host = strings.ToUpper(host) + "."
	s.Taken, s.InProgress = nil, nil
	if after, _ = s.Observe(o); after.Absence == nil || after.Absence.Checks != 3 {
		t.Errorf("state %+v: want the same host, in capitals", after)
	}
}

// TestAfterAnAction checks that an absence after an action counts nothing, and that the
// token's return is not yet a restoration.
func TestAfterAnAction(t *testing.T) {
	s := observe(sweep.DomainState{}, 0, dnscheck.Absent, dnscheck.Absent)
	since := s.Absence.Since
	s.InProgress = &sweep.ActionRequest{
		Action: sweep.SetPending, At: day0.Add(day), Tick: s.Tick, Since: since, Host: host, TXT: txt, Flag: new(true), Verdict: []byte("why"),
	}
	s.TookAway("ord_1", day0.Add(day+time.Minute), "_new.org_1.example", "token-3")
	if !s.TookStatus() || s.InProgress != nil || s.Absence != nil || s.Taken.Verdict != nil || !s.Taken.EffectiveAt().Equal(day0.Add(day+time.Minute)) || s.Taken.Host != host ||
		s.TokenHash != sweep.HashToken("_new.org_1.example", "token-3") || s.Host != "_new.org_1.example" || s.TXT != "token-3" || types(s.Pending) != "domain.at_risk domain.lost" {
		t.Errorf("state %+v", s)
	}
	if last := s.History[len(s.History)-1]; last.What != "acted on: pending" || string(last.Verdict) != "why" {
		t.Errorf("history %+v", s.History)
	}
	event := s.Pending[1]
	if want := (events.Data{OrganizationID: "org_1", DiscoveryDomainID: "ord_1", Domain: "org_1.example", Tick: day0.Add(day).Unix(), Reason: s.Sentence, Since: since, Action: "pending"}); !cmp.Equal(event.Data, want) ||
		event.ID != fmt.Sprintf("domain.lost-ord_1-%d", day0.Add(day).Unix()) {
		t.Errorf("event %+v, want %+v", event, want)
	}
	o := observed(day0.Add(2*day), dnscheck.Absent)
	o.Host, o.TXT = s.Host, s.TXT
	s, _ = s.Observe(o)
	o.Tick, o.Verdict.State = o.Tick+86400, dnscheck.Present
	s, _ = s.Observe(o)
	if s.Absence != nil || s.Taken == nil || types(s.Pending) != "domain.at_risk domain.lost" {
		t.Errorf("state %+v", s)
	}
	s.Restored("ord_1", day0.Add(4*day), []byte("proof"))
	if s.Watched() || !s.RestoredAt(day0.Add(4*day)) || s.RestoredAt(day0.Add(5*day)) || types(s.Pending) != "domain.at_risk domain.lost domain.restored" {
		t.Errorf("state %+v", s)
	}
	if last := s.Pending[2].Data; last.Action != "pending" || !last.Since.Equal(since) {
		t.Errorf("event %+v", last)
	}
}

func TestReport(t *testing.T) {
	s := observe(sweep.DomainState{}, 0, dnscheck.Absent)
	before := s
	s.Report("ord_1", day0.Add(day), sweep.Unroute, "it is gone")
	if s.Absence.ReportedAs != sweep.Unroute || !s.Absence.Reported.Equal(day0.Add(day)) || past(s) != "gone, reported" || types(s.Pending) != "domain.at_risk domain.lost" ||
		s.Pending[1].Data.Action != "report" || s.Pending[1].Data.Reason != "it is gone" {
		t.Errorf("state %+v", s)
	}
	if !before.Absence.Reported.IsZero() {
		t.Error("the former state was modified")
	}
	s.Clear(day0.Add(2*day), "pending", "someone else has set it to pending")
	if s.Watched() || past(s) != "gone, reported, pending" {
		t.Errorf("state %+v", s)
	}
}

// TestHistory checks that the last entries are retained, and that a changed reason takes one
// of them.
func TestHistory(t *testing.T) {
	var s sweep.DomainState
	for i := range 25 {
		s.Note(day0.Add(time.Duration(i)*day), fmt.Sprintf("entry %d", i), strings.Repeat("ä", 500))
	}
	if len(s.History) != 20 || s.History[0].What != "entry 5" || len([]rune(s.History[0].Why)) != 400 {
		t.Errorf("%d entries, the first %+v", len(s.History), s.History[0])
	}
	for i := range 30 {
		s.NotRestored(day0.Add(time.Duration(i)*time.Hour), fmt.Sprintf("reason %d", i))
	}
	s.NotRestored(day0.Add(100*day), "reason 29")
	last := s.History[len(s.History)-1]
	if len(s.History) != 20 || s.History[18].What != "entry 24" || last.Why != "reason 29" || !last.At.Equal(day0.Add(29*time.Hour)) {
		t.Errorf("history %+v", s.History)
	}
}

// TestValues checks that published values are quoted, truncated and listed once each.
func TestValues(t *testing.T) {
	o := observed(day0, dnscheck.Absent)
	o.Verdict.Observations = []dnscheck.Observation{
		{Values: []string{"a\x00\u202e", strings.Repeat("b", 5000)}}, {Values: []string{"a\x00\u202e", "c", "d"}},
	}
	s, _ := sweep.DomainState{}.Observe(o)
	want := []string{`"a\x00\u202e"`, `"` + strings.Repeat("b", 100) + `\u2026"`, `"c"`}
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
	s, counted := sweep.DomainState{}.Observe(o)
	if !slices.Equal(counted, []string{"present", "operator:dns"}) {
		t.Errorf("counted %q", counted)
	}
	s, counted = s.Observe(observed(day0.Add(day), dnscheck.Absent))
	if !slices.Equal(counted, []string{"absent", "operator:dns"}) || s.Absence.Operator != "dns" {
		t.Errorf("counted %q, absence %+v", counted, s.Absence)
	}
}

// TestObserveOmittedFlag checks that the state reports whether the last record read by a sweep
// omits its flag, for every result of the check. A check between two sweeps reads no record.
func TestObserveOmittedFlag(t *testing.T) {
	var s sweep.DomainState
	for i, state := range []dnscheck.State{dnscheck.Present, dnscheck.Absent, dnscheck.Unknown} {
		for _, omitted := range []bool{true, false, true} {
			o := observed(day0.Add(time.Duration(i)*day), state)
			o.FlagOmitted, o.Tick = omitted, s.Tick+60
			if s, _ = s.Observe(o); s.FlagOmitted != omitted {
				t.Errorf("%s: omitted %t, want %t", state, s.FlagOmitted, omitted)
			}
		}
	}
}

// storedState has every member, with the names of the old core.
const storedState = `{"v":1,"organization_id":"org_1","domain":"a.example","token":"0011223344556677","tick":1795309200,"sweeps":12,` +
	`"state":"absent","reason":"no_record","sentence":"There is none.","values":["\"x\""],"operator":"dns","at":"2026-11-22T01:02:03Z","flag_omitted":true,` +
	`"first_present":"2026-11-01T03:00:00Z","last_present":"2026-11-10T03:00:00Z",` +
	`"absence":{"since":"2026-11-11T03:00:00Z","tick":1794366000,"last":"2026-11-22T01:02:03Z","last_tick":1795309200,"checks":11,"operator":"dns","reported":"2026-11-20T03:00:00Z","reported_as":"unroute"},` +
	`"acting":{"action":"unroute","at":"2026-11-22T01:02:04Z","tick":1795309200,"since":"2026-11-11T03:00:00Z","host":"_h.a.example","txt":"t","flag":true,"back":true,"verdict":"d2h5"},` +
	`"taken":{"action":"pending","at":"2026-11-22T01:02:04Z","tick":1795309200,"since":"2026-11-11T03:00:00Z","host":"_h.a.example","txt":"t","flag":false,"landed":"2026-11-22T01:02:05Z"},` +
	`"untold":[{"ID":"domain.lost-ord_1-1795309324","Type":"domain.lost","At":"2026-11-22T01:02:04Z","Data":{"tenant":"","organization_id":"org_1","discovery_domain_id":"ord_1","domain":"a.example","tick":1795309200,"reason":"r","since":"2026-11-11T03:00:00Z","action":"pending"}}],` +
	`"past":[{"at":"2026-11-11T03:00:00Z","what":"gone","why":"There is none."},{"at":"2026-11-22T01:02:04Z","what":"acted on: pending","verdict":"d2h5"}]}`

// TestStoredState checks that the JSON documents are those of the old core, plus host and TXT.
func TestStoredState(t *testing.T) {
	s, err := sweep.ReadState([]byte(storedState))
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(s)
	if diff := cmp.Diff(storedState, string(got)); diff != "" || err != nil {
		t.Errorf("%v, state (-want +got):\n%s", err, diff)
	}
	s.Host, s.TXT = "_h.a.example", "t"
	if got, err = json.Marshal(s); err != nil || !strings.Contains(string(got), `"token":"0011223344556677","host":"_h.a.example","txt":"t","tick"`) {
		t.Errorf("%v, state %s", err, got)
	}
	for _, bad := range []string{`{"v":2}`, `{"v":1,"tick":"x"}`, ``, `[]`} {
		if _, err := sweep.ReadState([]byte(bad)); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}

func TestStoredResults(t *testing.T) {
	for want, into := range map[string]any{
		`{"id":"s","open":true,"at":"2026-11-22T01:02:03Z","why":"w","confirmed":"2026-11-20T01:02:03Z"}`: new(sweep.Breaker),
		`{"open":false}`: new(sweep.Breaker),
		`{"tick":1795309200,"run":"s","at":"2026-11-22T01:02:03Z","organizations":1,"present":2,"absent":3,"unknown":4,"newly_absent":5,"at_risk":6,"acted":7,"held":8,"protected":9,"why":"w"}`:      new(sweep.Summary),
		`{"organization_id":"org_1","tick":1,"spread_until":2,"verify_pending":true,"organizations_read":3,"organizations_gone":4,"organizations_missed":5,"why":"w","ended_early":"e","ended":true}`: new(sweep.Progress),
		`{"organizations_read":0}`: new(sweep.Progress),
		`{"organization_id":"org_1","discovery_domain_id":"ord_1","tick":1,"back":true,"finish":true}`: new(sweep.ActionRow),
	} {
		err := json.Unmarshal([]byte(want), into)
		got, other := json.Marshal(into)
		if err != nil || other != nil || string(got) != want {
			t.Errorf("%v, %v: %s, want %s", err, other, got, want)
		}
	}
}
