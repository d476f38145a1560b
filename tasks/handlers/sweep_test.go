package handlers_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"orgops/internal/activity"
	"orgops/internal/sandbox"
	"orgops/internal/sweep"
	"orgops/tasks/handlers"
)

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
