package status_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"orgops/dnscheck"
	"orgops/internal/ledger"
	"orgops/internal/pace"
	"orgops/internal/status"
	"orgops/internal/sweep"
	"orgops/internal/tenant"
)

// TestFactsOfARun checks that values of strangers are safe, that related runs are links where they
// have a page, and that what is not known is left out.
func TestFactsOfARun(t *testing.T) {
	at := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	child := ledger.Run{ID: "again", CommittedAt: at, EndedAt: at}
	d := status.RunDetails{
		Run: status.RunOf(ledger.Run{
			ID: "nightly", Kind: "domain:verify", Tenant: "acme", CreatedAt: at,
			Description: ledger.Description{Parent: "former", Label: "spring\x1b[2J"},
		}),
		Children: []status.Run{status.RunOf(child), {ID: "begun", Parent: "nightly", State: status.NotStarted}},
	}
	want := []status.Fact{
		{Name: "kind", Text: "domain:verify"},
		{Name: "tenant", Text: "acme"},
		{Name: "label", Text: `spring\x1b[2J`},
		{Name: "retry of", Run: "former"},
		{Name: "retried by", Run: "again", Text: "(" + status.RunOf(child).Brief() + ")"},
		{
			Name: "retried by",
			Text: "begun (interrupted before it started; to complete it: enqueue runs retry nightly --run begun)",
		},
		{Name: "created", Text: "2026-11-20T08:00:00Z"},
	}
	if diff := cmp.Diff(want, d.Facts()); diff != "" {
		t.Errorf("facts (-want +got):\n%s", diff)
	}
}

// TestFactsOfATenant checks the facts of a tenant whose worker has announced its settings, and of
// one that no worker has served.
func TestFactsOfATenant(t *testing.T) {
	at := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	one := status.Tenant{
		Pace: &pace.State{PausedUntil: at, Blocks: []pace.Block{{Operation: "token", Reason: "401", NextProbe: at}}},
		Ticks: &sweep.Ticks{
			Skipped: sweep.SkippedTick{Tick: at.Unix(), Why: "the last sweep is running", InRow: 2},
		},
	}
	held := []status.Fact{
		{Name: "paused", Text: "ends 2026-11-20T08:00:00Z"},
		{Name: "blocked", Text: "token: 401; next test request 2026-11-20T08:00:00Z"},
	}
	skipped := status.Fact{
		Name: "sweep skipped", Text: "the tick of 2026-11-20T08:00:00Z: the last sweep is running (2 in a row)",
	}
	settings := tenant.Announced{Rate: "16/s", Burst: 50, Reserve: 20, Sweep: "0 3 * * *", UpdatedAt: at}
	rate := []status.Fact{
		{Name: "rate", Text: "16/s, burst 50"},
		{Name: "reserve", Text: "20 % for other clients of the API"},
		{Name: "settings from", Text: "a worker, 2026-11-20T08:00:00Z"},
	}
	schedule := status.Fact{Name: "sweep schedule", Text: "0 3 * * *, next at 2026-11-21T03:00:00Z"}
	rules := status.Fact{Name: "sweep rules", Text: status.RulesText(settings.Rules())}
	for _, tt := range []struct {
		name         string
		announced    bool
		pace, sweeps []status.Fact
	}{
		{"announced", true, append(held, rate...), []status.Fact{schedule, skipped, rules}},
		{"never served", false, held, []status.Fact{skipped}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.pace, one.PaceFacts(settings, tt.announced)); diff != "" {
				t.Errorf("pace (-want +got):\n%s", diff)
			}
			sweeps, err := one.SweepFacts(settings, tt.announced, at)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.sweeps, sweeps); diff != "" {
				t.Errorf("sweeps (-want +got):\n%s", diff)
			}
		})
	}
}

// TestFactsOfDNS checks the facts of a tenant's resolvers: by a worker of it with their states, and
// by others with their addresses.
func TestFactsOfDNS(t *testing.T) {
	at := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	settings := tenant.Announced{DNSMode: "authority", ResolverQuorum: 1, Resolvers: []string{"192.0.2.1:53\x1b"}}
	mode := status.Fact{Name: "DNS mode", Text: "authority"}
	quorum := status.Fact{Name: "quorum", Text: "1 of 1 resolvers must agree"}
	states := []dnscheck.ResolverState{{Name: "192.0.2.1:53", Operator: "192.0.2.1", Perspective: "default",
		InTheClear: true, AnsweredAt: at, Silent: "refused"}}
	resolver := status.Fact{Name: "resolver 192.0.2.1:53",
		Text: "operator 192.0.2.1, perspective default; silent: refused; unencrypted; last answer 2026-11-20T08:00:00Z"}
	for _, tt := range []struct {
		name      string
		announced bool
		resolvers []dnscheck.ResolverState
		way       *dnscheck.Network
		want      []status.Fact
	}{
		{name: "never served"},
		{
			name: "of another worker", announced: true,
			want: []status.Fact{mode, {Name: "resolver", Text: `192.0.2.1:53\x1b`}, quorum},
		},
		{
			name: "of a worker without name servers", announced: true, resolvers: states,
			want: []status.Fact{mode, resolver, quorum},
		},
		{
			name: "with port 53 open", announced: true, resolvers: states, way: &dnscheck.Network{Port53: dnscheck.Port53Open},
			want: []status.Fact{mode, {Name: "name servers", Text: "reachable"}, resolver, quorum},
		},
		{
			name: "with port 53 not known", announced: true, resolvers: states, way: &dnscheck.Network{},
			want: []status.Fact{mode, {Name: "name servers", Text: "not known"}, resolver, quorum},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, status.DNSFacts(settings, tt.announced, tt.resolvers, tt.way)); diff != "" {
				t.Errorf("facts (-want +got):\n%s", diff)
			}
		})
	}
}
