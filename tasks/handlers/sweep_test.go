package handlers_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"orgops/internal/activity"
	"orgops/internal/events"
	"orgops/internal/ledger"
	"orgops/internal/redistest"
	"orgops/internal/sandbox"
	"orgops/internal/sweep"
	"orgops/tasks/handlers"
)

// sweepScene is the last sweep of a grace period, a revocation, or the sweep of a token's return.
type sweepScene struct {
	name       string
	set        sweep.Setting
	begin, end func(*sweepSite)
	// requests is the number of requests of the executions. points is the least number of points
	// at which they are disturbed.
	requests, points int
	revokes          bool
}

func (c sweepScene) site(t *testing.T) *sweepSite {
	t.Helper()
	s := newSweepSite(t, c.set)
	c.begin(s)
	return s
}

// play sweeps, or revokes.
func (c sweepScene) play(s *sweepSite) {
	s.t.Helper()
	if !c.revokes {
		s.sweep()
		return
	}
	s.open("", handlers.Revoke, s.revocation())
	s.settle()
}

func sweepScenes() []sweepScene {
	ripe := func(use *bool) func(*sweepSite) {
		return func(s *sweepSite) {
			s.due(use)
			s.conclude(s.missed())
		}
	}
	revoked := func(set sweep.Setting, status string, use bool) sweepScene {
		return sweepScene{name: "revoke " + string(set), set: set, revokes: true, requests: 2, points: 18,
			begin: ripe(new(true)), end: func(s *sweepSite) {
				s.wantDomain(status, new(use))
				s.wantEvents(events.DomainAtRisk, events.DomainLost)
				if !isRevoked(s.domainState()) {
					s.t.Errorf("state %+v", s.domainState())
				}
				s.wantVerdict("revoked: "+string(set), "absent", "domain revoked: "+string(set))
				s.wantRow(s.Row(0).Result, ledger.Done, string(set)+": ")
			}}
	}
	back := func(set sweep.Setting, audited string, omitted bool, points int) sweepScene {
		return sweepScene{name: fmt.Sprintf("back %s, omitted %t", set, omitted), set: set, requests: 2, points: points,
			begin: func(s *sweepSite) {
				s.revoked(new(true))
				s.publish()
				if omitted {
					s.flag(nil)
				}
			}, end: func(s *sweepSite) {
				s.wantDomain("verified", new(true))
				s.wantEvents(events.DomainAtRisk, events.DomainLost, events.DomainFound)
				if m := s.domainState(); m.Watched() {
					s.t.Errorf("state %+v", m)
				}
				s.wantVerdict("restored", "present", audited)
			}}
	}
	return []sweepScene{
		{name: "lost", set: sweep.SetPending, requests: 1, points: 10, begin: func(s *sweepSite) { s.due(new(true)) },
			end: func(s *sweepSite) {
				s.wantPatches()
				s.wantEvents(events.DomainAtRisk, events.DomainLost)
				s.wantHistory("lost", "sweeps have found it gone", 1)
				s.wantRow(s.Row(0).Result, ledger.Lost, "gone since ")
				if !s.domainState().IsLost() {
					s.t.Errorf("state %+v", s.domainState())
				}
			}},
		{name: "proven", set: sweep.SetPending, points: 8, begin: func(s *sweepSite) {
			s.foreign(new(true))
			s.publish()
		}, end: func(s *sweepSite) {
			s.wantPatches()
			s.wantEvents()
			s.wantProven(s.Row(0).Result)
		}},
		revoked(sweep.Unroute, "verified", false), revoked(sweep.SetPending, "pending", true),
		back(sweep.Unroute, "domain routed again", false, 26), back(sweep.SetPending, "domain verified", false, 18),
		back(sweep.SetPending, "domain verified", true, 18),
		{name: "omitted", set: sweep.Unroute, revokes: true, requests: 1, points: 10, begin: func(s *sweepSite) {
			ripe(new(true))(s)
			s.flag(nil)
		}, end: func(s *sweepSite) {
			s.wantPatches()
			s.wantDomain("verified", nil)
			if m := s.domainState(); m.Revoked != nil || !m.IsLost() {
				s.t.Errorf("state %+v", m)
			}
		}},
		{name: "returned, omitted", set: sweep.Unroute, requests: 1, points: 18, begin: func(s *sweepSite) {
			s.revoked(new(true))
			s.publish()
			s.flag(nil)
		}, end: func(s *sweepSite) {
			s.wantPatches(patchNoUse)
			s.wantRow(s.last, ledger.Unchanged, "not restored: the record has no use_for_organization_discovery")
			if !isRevoked(s.domainState()) {
				s.t.Errorf("state %+v", s.domainState())
			}
		}},
	}
}

// TestActivityOfRestorations checks that the entry of a restored domain says what the domain is
// again, and not how it was revoked.
func TestActivityOfRestorations(t *testing.T) {
	for set, again := range map[sweep.Setting]string{
		sweep.SetPending: "verified again",
		sweep.Unroute:    "used for discovery again",
	} {
		t.Run(string(set), func(t *testing.T) {
			s := newSweepSite(t, set)
			s.by = activity.Author{Redis: s.Redis, Logger: slog.New(slog.DiscardHandler), Name: "worker"}
			s.revoked(new(true))
			s.publish()
			s.sweep()
			q := activity.Query{Tenants: []string{string(tenant)}, Text: string(activity.Restored), Limit: 9}
			all, _, err := activity.Page(t.Context(), s.Redis, q)
			if err != nil || len(all) != 1 || !strings.HasSuffix(all[0].Result, ": "+again) {
				t.Errorf("%+v, %v, want one entry that ends with %q", all, err, again)
			}
		})
	}
}

// TestSweepKilled kills a worker at each point of the executions of a sweep, of a revocation and of
// what follows.
func TestSweepKilled(t *testing.T) {
	t.Parallel()
	for i, c := range sweepScenes() {
		disturbed(t, c.name, c.points, 11, i, func(t *testing.T, point int) string {
			s := c.site(t)
			died := s.at(point, runtime.Goexit)
			c.play(s)
			c.end(s)
			if t.Failed() {
				t.Logf("died %s", *died)
			}
			return *died
		})
	}
}

// TestSweepInTrouble has each request of these executions meet trouble.
func TestSweepInTrouble(t *testing.T) {
	t.Parallel()
	faults := []struct {
		name  string
		fault sandbox.Fault
	}{
		{"throttled", sandbox.Fault{Status: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"7"}}}},
		{"unavailable", sandbox.Fault{Status: http.StatusServiceUnavailable}},
		{"carried out", sandbox.Fault{Status: http.StatusServiceUnavailable, Handled: true}},
		{"lost", sandbox.Fault{DropAfter: true}},
		{"cut", sandbox.Fault{Truncate: true}},
	}
	for i, c := range sweepScenes() {
		for k := range (c.requests + 1) * len(faults) {
			if (k+i)%redistest.Stride(7) != 0 {
				continue
			}
			request, fault := k/len(faults), faults[k%len(faults)]
			t.Run(fmt.Sprintf("%s/%s/%d", c.name, fault.name, request), func(t *testing.T) {
				s := c.site(t)
				s.clock.advance(time.Hour)
				f, before := fault.fault, len(s.requests())
				f.Skip, f.Count = request, 1
				f.Match = func(r sandbox.Request) bool { return r.Operation != sandbox.OpToken }
				s.sandbox.AddFault(f)
				c.play(s)
				c.end(s)
				if met := len(s.requests())-before > request; met != (request < c.requests) {
					t.Errorf("%d requests, want %d without trouble", len(s.requests())-before, c.requests)
				}
			})
		}
	}
}

// TestSweepHistories sweeps a domain once a day and submits a revocation after each sweep. Each
// day has the state of the token: there, missing, or unknown since no server answers. On some
// another client changes the record. After each day the record must be verified or pending.
func TestSweepHistories(t *testing.T) {
	t.Parallel()
	const (
		there, missing, unknown = '+', '-', '?'
		otherToken, setVerified = 'c', 'V' // by another client; the token in DNS is missing
	)
	for name, c := range map[string]struct{ days, want string }{
		"lost for good":                    {"+-----------", "vvvvvvvvpppp"},
		"lost and back":                    {"+--------+", "vvvvvvvvpv"},
		"lost, back and lost again":        {"+--------+--------+", "vvvvvvvvpvvvvvvvvpv"},
		"back before the grace is over":    {"+-------+-------+", "vvvvvvvvvvvvvvvvv"},
		"comes and goes":                   {"+--+---+--------", "vvvvvvvvvvvvvvvp"},
		"never there":                      {"------------", "vvvvvvvvvvvv"},
		"too few checks have missed it":    {"+-???????-?-", "vvvvvvvvvvvp"},
		"no answers":                       {"+???????????", "vvvvvvvvvvvv"},
		"no answer to the last sweep":      {"+-------?-", "vvvvvvvvvp"},
		"no answer when it may be back":    {"+--------?+", "vvvvvvvvppv"},
		"another token before the grace":   {"+----c---------", "vvvvvvvvvvvvvvv"},
		"verified again by another client": {"+--------V---------", "vvvvvvvvpvvvvvvvppp"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSweepSite(t, sweep.SetPending)
			d := s.foreign(new(true))
			have := ""
			for _, day := range c.days {
				s.sandbox.SetTXT(d.Host)
				s.sandbox.SetRCode(d.Host, 0, 0)
				switch day {
				case there:
					s.publish()
				case unknown:
					s.sandbox.SetRCode(d.Host, dns.RcodeServerFailure, 1<<30)
				case otherToken:
					s.edit(func(d *sandbox.Domain) { d.TXT = "other" })
				case setVerified:
					s.edit(func(d *sandbox.Domain) { d.Status = "verified" })
				}
				s.clock.advance(time.Hour) // answers and records of the day before are forgotten
				s.sweep()
				s.open("", handlers.Revoke, s.revocation())
				s.settle()
				have += s.now(d).Status[:1]
				s.clock.advance(23 * time.Hour)
			}
			if have != c.want {
				t.Errorf("the record on each day\n\tof %s\n\tis %s, want\n\t   %s; state %+v", c.days, have, c.want, s.domainState())
			}
		})
	}
}
