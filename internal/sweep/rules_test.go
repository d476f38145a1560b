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
		Absence: &sweep.Absence{Since: day0, Tick: day0.Unix(), Last: at, LastTick: at.Unix(), Checks: checks},
	}
}

func TestAssess(t *testing.T) {
	for _, test := range []struct {
		name   string
		rules  sweep.Rules
		change func(*sweep.DomainState)
		want   sweep.Status
	}{
		{"gone for the grace period", sweep.Rules{}, func(*sweep.DomainState) {}, sweep.StatusDue},
		{"present", sweep.Rules{}, func(s *sweep.DomainState) { s.Absence = nil }, sweep.StatusPresent},
		{"a second before the end of the grace period", sweep.Rules{}, func(s *sweep.DomainState) { s.Absence.Last = s.Absence.Last.Add(-time.Second) }, sweep.StatusAtRisk},
		{"a clock ahead", sweep.Rules{}, func(s *sweep.DomainState) {
			s.Absence.LastTick, s.Absence.Last = day0.Unix()+7200, s.Absence.Last.Add(30*day)
		}, sweep.StatusAtRisk},
		{"a clock behind", sweep.Rules{}, func(s *sweep.DomainState) {
			s.Absence.LastTick, s.Absence.Since = day0.Unix()+7200, day0.Add(-30*day)
		}, sweep.StatusAtRisk},
		{"two checks", sweep.Rules{}, func(s *sweep.DomainState) { s.Absence.Checks = 2 }, sweep.StatusAtRisk},
		{"rules with more checks", sweep.Rules{AbsentChecks: 9}, func(*sweep.DomainState) {}, sweep.StatusAtRisk},
		{"rules with a longer grace period", sweep.Rules{Grace: 8 * day}, func(*sweep.DomainState) {}, sweep.StatusAtRisk},
		{"the last check had no answer", sweep.Rules{}, func(s *sweep.DomainState) { s.State = "unknown" }, sweep.StatusUnsure},
		{"the last sweep found it", sweep.Rules{}, func(s *sweep.DomainState) { s.State = "present" }, sweep.StatusUnsure},
		{"protected organization", sweep.Rules{Protect: []string{"org_1"}}, func(*sweep.DomainState) {}, sweep.StatusProtected},
		{"protected domain", sweep.Rules{Protect: []string{"ORG_1.example."}}, func(*sweep.DomainState) {}, sweep.StatusProtected},
		{"protected domain with a full stop", sweep.Rules{Protect: []string{"example"}}, func(s *sweep.DomainState) { s.Domain += "." }, sweep.StatusProtected},
		{"protected parent", sweep.Rules{Protect: []string{"example"}}, func(*sweep.DomainState) {}, sweep.StatusProtected},
		{"another is protected", sweep.Rules{Protect: []string{"g_1.example", "org"}}, func(*sweep.DomainState) {}, sweep.StatusDue},
		{"reported", sweep.Rules{}, func(s *sweep.DomainState) { s.Absence.Reported = day0 }, sweep.StatusReported},
		{"reported, and the action is another now", sweep.Rules{Action: sweep.SetPending}, func(s *sweep.DomainState) { s.Absence.Reported = day0 }, sweep.StatusDue},
		{"reported, and the action is another now, but the record omits its flag", sweep.Rules{Action: sweep.SetPending}, func(s *sweep.DomainState) {
			s.Absence.Reported, s.FlagOmitted = day0, true
		}, sweep.StatusReported},
		{"reported, since the record omitted its flag", sweep.Rules{Action: sweep.Unroute}, func(s *sweep.DomainState) {
			s.Absence.Reported, s.Absence.ReportedAs = day0, sweep.Report
		}, sweep.StatusDue},
		{"reported as unrouted, since it was not routed", sweep.Rules{Action: sweep.Unroute}, func(s *sweep.DomainState) {
			s.Absence.Reported, s.Absence.ReportedAs = day0, sweep.Unroute
		}, sweep.StatusReported},
		{"not reported, and the record omits its flag", sweep.Rules{Action: sweep.Unroute}, func(s *sweep.DomainState) { s.FlagOmitted = true }, sweep.StatusDue},
		{"taken", sweep.Rules{Action: sweep.SetPending}, func(s *sweep.DomainState) { s.Taken = &sweep.ActionRequest{Action: sweep.SetPending} }, sweep.StatusTaken},
		{"a request in progress", sweep.Rules{Action: sweep.SetPending, Protect: []string{"org_1"}}, func(s *sweep.DomainState) {
			s.InProgress = &sweep.ActionRequest{Action: sweep.SetPending}
		}, sweep.StatusInProgress},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := absent("org_1", 7, 8)
			test.change(&s)
			if got := test.rules.Assess(s); got.Status != test.want {
				t.Errorf("status %s (%s), want %s", got.Status, got.Reason, test.want)
			}
		})
	}
}

func TestAssessmentSaysWhy(t *testing.T) {
	got := sweep.Rules{AbsentChecks: 9}.Assess(absent("org_1", 7, 8))
	if want := (sweep.Assessment{Status: sweep.StatusAtRisk, NotBefore: day0.Add(7 * day), Reason: "8 of 9 sweeps have found it gone, over 7.0 days of 7.0 days"}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := (sweep.Rules{}).Assess(absent("org_1", 7, 8)).Reason; got != "8 sweeps have found it gone, over 7.0 days" {
		t.Errorf("reason %q", got)
	}
}

// TestOmittedFlag checks that a domain whose record omits its flag is only reported, for all
// rules, and that the reason names the flag.
func TestOmittedFlag(t *testing.T) {
	for action, omitted := range map[sweep.Action]bool{sweep.Report: false, sweep.Unroute: true, sweep.SetPending: true} {
		rules, s := sweep.Rules{Action: action}, absent("org_1", 7, 8)
		if got := rules.ActionOn(s); got != action || rules.Omission(s) != "" {
			t.Errorf("%s: action %s, omission %q, though the record has its flag", action, got, rules.Omission(s))
		}
		s.FlagOmitted = true
		if got := rules.ActionOn(s); got != sweep.Report {
			t.Errorf("%s: action %s on a domain whose record omits its flag", action, got)
		}
		for _, text := range []string{rules.Omission(s), rules.Assess(s).Reason} {
			for _, part := range []string{"has no use_for_organization_discovery", string(action), "absent-action report"} {
				if strings.Contains(text, part) != omitted {
					t.Errorf("%s: %q mentions %q: want %t", action, text, part, omitted)
				}
			}
		}
	}
}

func TestParseAction(t *testing.T) {
	for name, want := range map[string]sweep.Action{"": sweep.Report, "report": sweep.Report, "unroute": sweep.Unroute, "pending": sweep.SetPending} {
		if got, err := sweep.ParseAction(name); got != want || err != nil {
			t.Errorf("%q: %q, %v", name, got, err)
		}
	}
	for _, name := range []string{"Pending", "delete", "verified"} {
		if _, err := sweep.ParseAction(name); err == nil {
			t.Errorf("%q: no error", name)
		}
	}
}

// TestWithheld checks that a value is not restored if it is unknown or could overwrite a
// change.
func TestWithheld(t *testing.T) {
	flag := new(false)
	for _, test := range []struct {
		name     string
		taken    *sweep.ActionRequest
		omitted  bool
		withheld bool
	}{
		{"nothing taken", nil, true, false},
		{"status", &sweep.ActionRequest{Action: sweep.SetPending, Flag: flag}, false, false},
		{"status, flag unknown, record has it", &sweep.ActionRequest{Action: sweep.SetPending}, false, false},
		{"status, flag known, record omits it", &sweep.ActionRequest{Action: sweep.SetPending, Flag: flag}, true, false},
		{"status, flag unknown, record omits it", &sweep.ActionRequest{Action: sweep.SetPending}, true, true},
		{"flag", &sweep.ActionRequest{Action: sweep.Unroute, Flag: flag}, false, false},
		{"flag unknown", &sweep.ActionRequest{Action: sweep.Unroute}, false, true},
		{"flag, record omits it", &sweep.ActionRequest{Action: sweep.Unroute, Flag: flag}, true, true},
	} {
		s := sweep.DomainState{Taken: test.taken, FlagOmitted: test.omitted}
		if got := s.Withheld(); (got != "") != test.withheld {
			t.Errorf("%s: withheld %q, want %t", test.name, got, test.withheld)
		}
		if status := (sweep.Rules{}).Assess(s); test.withheld && !strings.Contains(status.Reason, "not restored") {
			t.Errorf("%s: assessed %+v", test.name, status)
		}
	}
}
