package tenant

import (
	"fmt"
	"net/url"
	"time"

	"orgops/apiclient/schema"
	"orgops/dnscheck/dnsname"
	"orgops/internal/sweep"
	"orgops/internal/untrusted"
)

// Bounds of the rules for domains whose token is gone.
const (
	// shortestGrace is longer than most outages of a domain's name servers.
	shortestGrace = 24 * time.Hour
	// longestGrace is shorter than the states of domains are stored.
	longestGrace     = 365 * 24 * time.Hour
	mostAbsentChecks = 1000
	// fewestAbsentChecks is more than a single bad night.
	fewestAbsentChecks = 2
)

// checkSweep checks the schedule of sweeps; off is none.
func (t *Settings) checkSweep() error {
	if t.Sweep == Off {
		return nil
	}
	cron, err := sweep.ParseCron(t.Sweep)
	if err != nil {
		return fmt.Errorf("sweep: %w (or off)", err)
	}
	t.Cron = cron
	return nil
}

func (t *Settings) checkRules() error {
	grace := time.Duration(t.Grace)
	switch {
	case grace <= 0 || grace > longestGrace:
		return fmt.Errorf("grace: want a time above 0, at most %s, got %s", longestGrace, grace)
	case grace < shortestGrace && !t.OnLoopback():
		return fmt.Errorf(
			"grace: want at least %s, got %s: an outage can take as long (less is for a sandbox, whose base URL is on loopback)",
			shortestGrace, grace)
	case t.AbsentChecks < 1 || t.AbsentChecks > mostAbsentChecks:
		return fmt.Errorf("absent-checks: want %d to %d, got %d", fewestAbsentChecks, mostAbsentChecks, t.AbsentChecks)
	case t.AbsentChecks < fewestAbsentChecks && !t.OnLoopback():
		return fmt.Errorf(
			"absent-checks: want %d to %d, got %d: one bad night is no loss (1 is for a sandbox, whose base URL is on loopback)",
			fewestAbsentChecks, mostAbsentChecks, t.AbsentChecks)
	}
	for _, p := range t.Protect {
		if err := checkProtected(p); err != nil {
			return err
		}
	}
	return nil
}

// checkProtected refuses an entry that is neither an id nor a name in the form of the API: it
// would protect nothing.
func checkProtected(p string) error {
	if schema.CheckID("protect", p) == nil {
		return nil
	}
	ascii, err := dnsname.CheckDomain(p)
	if err != nil {
		return fmt.Errorf("protect: want domains (including their subdomains) and organization ids: %w", err)
	}
	if !dnsname.Same(ascii, p) {
		return fmt.Errorf("protect: want %s in the form that the DNS has it in: %s", untrusted.Value(p), ascii)
	}
	return nil
}

// OnLoopback reports whether the API is on this machine: the tenant is a sandbox.
func (t *Settings) OnLoopback() bool {
	u, err := url.Parse(t.BaseURL)
	return err == nil && untrusted.IsLoopback(u.Hostname())
}

// Warnings returns the suspicious settings.
func (t *Settings) Warnings() (all []string) {
	for i, r := range t.DNSResolvers {
		if r.InTheClear() {
			all = append(all,
				fmt.Sprintf(
					"resolvers: %s is queried without encryption, so an attacker on the path to it can forge its answers and prove any domain: name it by https://, as the default does", t.Resolvers[i]))
		}
		if t.RequireDNSSEC && !r.Protected() {
			all = append(all,
				fmt.Sprintf(
					"require-dnssec: resolver %s is queried without encryption, so a forged answer can claim to be authenticated: name it by https://", t.Resolvers[i]))
		}
	}
	if t.Sweep == Off || t.AbsentChecks < 2 {
		return all
	}
	takes, ok := t.Cron.Shortest(t.AbsentChecks - 1)
	if !ok || takes > time.Duration(t.Grace) {
		longer := "an unknown time"
		if ok {
			longer = takes.String() + " at least"
		}
		all = append(all, fmt.Sprintf("grace: %s end before %d sweeps by %s, which take %s: no domain is lost before then",
			t.Grace, t.AbsentChecks, t.Cron, longer))
	}
	return all
}
