package sweep_test

import (
	"strings"
	"testing"
	"time"

	"orgops/internal/sweep"
)

var day0 = time.Date(2026, 11, 1, 3, 0, 0, 0, time.UTC)

const day = 24 * time.Hour

// absent returns the state of a domain whose token is gone since day0, by the sweep of so
// many days later.
func absent(organization string, days, checks int) sweep.DomainState {
	at := day0.Add(time.Duration(days) * day)
	return sweep.DomainState{
		V: 1, OrganizationID: organization, Domain: organization + ".example", State: "absent", Tick: at.Unix(), At: at,
		Proven:  &sweep.Proof{At: day0.Add(-day), Evidence: []byte("proof")},
		Absence: &sweep.Absence{Since: day0, Tick: day0.Unix(), Last: at, LastTick: at.Unix(), Checks: checks},
	}
}

// TestUnfit checks which domains qualify to be revoked, and why others do not.
func TestUnfit(t *testing.T) {
	last := day0.Add(7 * day).Unix() // the tick of the last complete sweep
	for _, test := range []struct {
		name     string
		rules    sweep.Rules
		change   func(*sweep.DomainState)
		complete int64
		want     string // part of the reason; "": it qualifies
	}{
		{"gone for the grace period", sweep.Rules{}, func(*sweep.DomainState) {}, last, ""},
		{"present", sweep.Rules{}, func(s *sweep.DomainState) { s.Absence = nil }, last, "not known to be gone"},
		{"never proven", sweep.Rules{}, func(s *sweep.DomainState) { s.Proven = nil }, last, "unproven"},
		{"seen, but never proven", sweep.Rules{}, func(s *sweep.DomainState) { s.Proven, s.FirstPresent = nil, day0 }, last,
			"unproven"},
		{"a second before the end of the grace period", sweep.Rules{},
			func(s *sweep.DomainState) { s.Absence.Last = s.Absence.Last.Add(-time.Second) }, last, "of 7.0 days"},
		{"a clock ahead", sweep.Rules{}, func(s *sweep.DomainState) {
			s.Absence.LastTick, s.Absence.Last = day0.Unix()+7200, s.Absence.Last.Add(30*day)
		}, last, "over 2h0m0s of 7.0 days"},
		{"a clock behind", sweep.Rules{}, func(s *sweep.DomainState) {
			s.Absence.LastTick, s.Absence.Since = day0.Unix()+7200, day0.Add(-30*day)
		}, last, "over 2h0m0s of 7.0 days"},
		{"two checks", sweep.Rules{}, func(s *sweep.DomainState) { s.Absence.Checks = 2 }, last, "2 of 3 sweeps"},
		{"rules with more checks", sweep.Rules{AbsentChecks: 9}, func(*sweep.DomainState) {}, last,
			"8 of 9 sweeps have found it gone, over 7.0 days of 7.0 days"},
		{"rules with a longer grace period", sweep.Rules{Grace: 8 * day}, func(*sweep.DomainState) {}, last, "of 8.0 days"},
		{"tightened to a longer one", sweep.Rules{}.Tightened(8*day, 0), func(*sweep.DomainState) {}, last, "of 8.0 days"},
		{"tightened to more checks", sweep.Rules{}.Tightened(0, 9), func(*sweep.DomainState) {}, last, "8 of 9 sweeps"},
		{"not loosened", sweep.Rules{AbsentChecks: 9}.Tightened(time.Second, 1), func(*sweep.DomainState) {}, last,
			"8 of 9 sweeps have found it gone, over 7.0 days of 7.0 days"},
		{"the last check had no answer", sweep.Rules{}, func(s *sweep.DomainState) {
			s.State = "unknown"
		}, last, "no answer"},
		{"no complete sweep", sweep.Rules{}, func(*sweep.DomainState) {}, 0, "the last complete sweep"},
		{"not found by the last complete sweep", sweep.Rules{}, func(*sweep.DomainState) {}, last + 60,
			"the last complete sweep"},
		{"found gone by a later sweep too", sweep.Rules{}, func(*sweep.DomainState) {}, last - 60, ""},
		{"found gone by later sweeps only", sweep.Rules{}, func(*sweep.DomainState) {}, day0.Unix() - 60,
			"the last complete sweep"},
		{"protected organization", sweep.Rules{Protect: []string{"org_1"}}, func(*sweep.DomainState) {}, last, "protected"},
		{"protected domain", sweep.Rules{Protect: []string{"ORG_1.example."}},
			func(*sweep.DomainState) {}, last, "protected"},
		{"protected domain with a full stop", sweep.Rules{Protect: []string{"example"}},
			func(s *sweep.DomainState) { s.Domain += "." }, last, "protected"},
		{"protected parent", sweep.Rules{Protect: []string{"example"}}.Tightened(1, 1),
			func(*sweep.DomainState) {}, last, "protected"},
		{"protected domain in another form", sweep.Rules{Protect: []string{"xn--bcher-kva.example"}},
			func(s *sweep.DomainState) { s.Domain = "shop.B\u00fccher.example" }, last, "protected"},
		{"another is protected", sweep.Rules{Protect: []string{"g_1.example", "org"}}, func(*sweep.DomainState) {}, last, ""},
		{"the record omits its flag", sweep.Rules{}, func(s *sweep.DomainState) { s.FlagOmitted = true }, last,
			"has no use_for_organization_discovery"},
		{"revoked", sweep.Rules{}, func(s *sweep.DomainState) { s.Revoked = &sweep.Revocation{Run: "run1", DoneAt: day0} },
			last, "was revoked by run run1"},
		{"a request in progress", sweep.Rules{}, func(s *sweep.DomainState) { s.Revoked = &sweep.Revocation{Run: "run1"} },
			last, "may have revoked it"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := absent("org_1", 7, 8)
			test.change(&s)
			if got := test.rules.Unfit(s, test.complete); (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}
