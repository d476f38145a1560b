package health_test

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"orgops/dnscheck"
	"orgops/internal/health"
)

func TestScopes(t *testing.T) {
	const domains = "read:organization_discovery_domains update:organization_discovery_domains "
	const templates = "create:vdcs_templates read:vdcs_templates "
	for _, tc := range []struct {
		name   string
		needs  health.Needs
		scopes string
		want   []string
	}{
		{
			"all", health.Needs{Sweep: true, Acts: true},
			domains + templates + "delete:organization_clients read:organizations", nil,
		},
		{"a kind is not meant", health.Needs{}, domains + templates + "read:organizations", []string{
			"warning  : the token has no delete:organization_clients: clients remove would be held back -> grant the client delete:organization_clients, if that is meant to be done"}},
		{"half of a kind", health.Needs{},
			domains + "delete:organization_clients create:vdcs_templates read:organizations", []string{
				"wrong    : the token has no read:vdcs_templates: templates create would be held back -> grant the client read:vdcs_templates"}},
		{"organizations cannot be listed", health.Needs{}, domains + templates + "delete:organization_clients", []string{
			"warning  : the token has no read:organizations: clients remove --everywhere would be held back -> grant the client read:organizations, if that is meant to be done",
			"warning  : the token has no read:organizations: domains verify --pending and domains sweep would be held back -> grant the client read:organizations, if that is meant to be done"}},
		{"records are not read", health.Needs{},
			"update:organization_discovery_domains delete:organization_clients read:organizations " + templates, []string{
				"wrong    : the token has no read:organization_discovery_domains: domains verify and domains update would be held back -> grant the client read:organization_discovery_domains",
				"warning  : the token has no read:organization_discovery_domains: domains verify --pending and domains sweep would be held back -> grant the client read:organization_discovery_domains, if that is meant to be done"}},
		{"sweeps by command alone", health.Needs{}, "read:organizations read:organization_discovery_domains", []string{
			"wrong    : the token has no update:organization_discovery_domains: domains verify and domains update would be held back -> grant the client update:organization_discovery_domains",
			"warning  : the token has no delete:organization_clients: clients remove would be held back -> grant the client delete:organization_clients, if that is meant to be done",
			"warning  : the token has no create:vdcs_templates, read:vdcs_templates: templates create would be held back -> grant the client create:vdcs_templates and read:vdcs_templates, if that is meant to be done"}},
		{"a schedule", health.Needs{Sweep: true}, domains + templates + "delete:organization_clients", []string{
			"warning  : the token has no read:organizations: clients remove --everywhere would be held back -> grant the client read:organizations, if that is meant to be done",
			"wrong    : the token has no read:organizations: the schedule of --sweep would be held back -> grant the client read:organizations"}},
		{"none", health.Needs{}, "openid", []string{
			"wrong    : the token has no update:organization_discovery_domains, read:organization_discovery_domains: domains verify and domains update would be held back -> grant the client update:organization_discovery_domains and read:organization_discovery_domains, if that is meant to be done",
			"wrong    : the token has no delete:organization_clients: clients remove would be held back -> grant the client delete:organization_clients, if that is meant to be done",
			"wrong    : the token has no create:vdcs_templates, read:vdcs_templates: templates create would be held back -> grant the client create:vdcs_templates and read:vdcs_templates, if that is meant to be done",
			"wrong    : the token has no read:organizations: clients remove --everywhere would be held back -> grant the client read:organizations, if that is meant to be done",
			"wrong    : the token has no read:organizations, read:organization_discovery_domains: domains verify --pending and domains sweep would be held back -> grant the client read:organizations and read:organization_discovery_domains, if that is meant to be done"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, complaints(tc.needs.Test(strings.Fields(tc.scopes)))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if got := complaints(health.Needs{}.Test(nil)); len(got) != 1 ||
		!strings.HasPrefix(got[0], "warning  : unknown scopes") {
		t.Errorf("not told: %q", got)
	}
}

func TestResolvers(t *testing.T) {
	good := func(addr string) dnscheck.Examination {
		return dnscheck.Examination{Name: addr + ":53", Perspective: "default", EDNS: true, Validates: true}
	}
	in := func(perspective string, e dnscheck.Examination) dnscheck.Examination {
		e.Perspective = perspective
		return e
	}
	silent := func(e *dnscheck.Examination) { e.Err = errors.New("no answer") }
	const onePlace = "warning  : all resolvers are queried from this network alone: whoever forges routes or answers near it misleads all of them -> name resolvers of your own in other networks (docs/perspectives.md)"
	bad := func(e dnscheck.Examination, spoil func(*dnscheck.Examination)) dnscheck.Examination {
		spoil(&e)
		return e
	}
	for _, tc := range []struct {
		name   string
		quorum int
		all    []dnscheck.Examination
		want   []string
	}{
		{"good", 2, []dnscheck.Examination{good("1.1.1.1"), good("8.8.8.8"), good("9.9.9.9")}, []string{onePlace}},
		{
			"two perspectives", 2, []dnscheck.Examination{in("eu", good("10.0.0.1")),
				in("us", good("10.0.0.2")), good("8.8.8.8")}, nil,
		},
		{"one perspective is left", 2, []dnscheck.Examination{in("eu", good("10.0.0.1")), in("eu", good("10.0.0.2")),
			in("us", bad(good("10.0.0.3"), silent))}, []string{
			"wrong    : resolver 10.0.0.3:53 does not answer: no answer -> check that this machine reaches it, or name another by --resolvers",
			"wrong    : 2 of 3 resolvers are usable, in eu, and a proof needs 2 of 2 perspectives, each by more than half of its resolvers -> nothing can be proven"}},
		{"port 443 is closed", 2, []dnscheck.Examination{
			bad(good("1.1.1.1"), func(e *dnscheck.Examination) { e.Transport, e.Err = "https", errors.New("i/o timeout") }),
			good("8.8.8.8"), good("9.9.9.9"),
		}, []string{
			"wrong    : resolver 1.1.1.1:53 does not answer: i/o timeout -> let TCP to port 443 out, or name another by --resolvers", onePlace}},
		{"another server answers over TLS", 2, []dnscheck.Examination{bad(good("1.1.1.1"), func(e *dnscheck.Examination) {
			e.Transport, e.Err = "https", fmt.Errorf("%w: valid for proxy.example", dnscheck.ErrCertificate)
		}), good("8.8.8.8"), good("9.9.9.9")}, []string{
			"wrong    : resolver 1.1.1.1:53 does not answer: the resolver's certificate is not valid: valid for proxy.example -> exempt this connection from TLS inspection, or correct the name after its #, or name another by --resolvers", onePlace}},
		{"too few", 2, []dnscheck.Examination{good("1.1.1.1"),
			bad(good("8.8.8.8"), func(e *dnscheck.Examination) { e.Err = errors.New("no answer") }),
			bad(good("9.9.9.9"), func(e *dnscheck.Examination) { e.Lies = "it has 1 records" })}, []string{
			"wrong    : resolver 8.8.8.8:53 does not answer: no answer -> check that this machine reaches it, or name another by --resolvers",
			"wrong    : resolver 9.9.9.9:53 answers for names that do not exist: it has 1 records -> name another by --resolvers",
			onePlace,
			"wrong    : 1 of 3 resolvers are usable, and a proof needs 2 -> nothing can be proven"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, complaints(health.Resolvers(tc.all, tc.quorum))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestOperatorsAreNamed(t *testing.T) {
	use := func(name, operator, perspective string) dnscheck.Examination {
		return dnscheck.Examination{Name: name, Operator: operator, Perspective: perspective, EDNS: true, Validates: true}
	}
	found := health.Resolvers([]dnscheck.Examination{use("1.1.1.1:53", "Cloudflare", "default"),
		use("10.0.0.1:53", "example.com", "eu"), use("10.0.0.2:53", "example.com", "us")}, 2)
	const want = "3 of 3 resolvers are usable, in default, eu, us, a proof needs this machine's and 2 of 2 perspectives, each by more than half of its resolvers; their operators: Cloudflare, example.com"
	if len(found) != 1 || found[0].Level != health.OK || found[0].Text != want {
		t.Errorf("got %+v, want %s", found, want)
	}
}

// TestNameServers has what doctor says of the way to domains' own name servers.
func TestNameServers(t *testing.T) {
	const remedy = " -> let UDP and TCP to port 53 of any address out, or set dns_mode: resolvers (docs/how-to/choose-a-proof.md says what that gives up)"
	blackHole := dnscheck.Network{Port53: dnscheck.Port53Open, IPv6: dnscheck.IPv6Silent, NoIPv6: "no answer"}
	for _, tc := range []struct {
		name    string
		network dnscheck.Network
		want    []string
	}{
		{"open", dnscheck.Network{Port53: dnscheck.Port53Open, IPv6: dnscheck.IPv6Open}, nil},
		{"IPv6 not known", dnscheck.Network{Port53: dnscheck.Port53Open}, nil},
		{"closed", dnscheck.Network{Port53: dnscheck.Port53Closed, Why: "no answer"}, []string{
			"wrong    : port 53 is closed: no name server of the root, com or org answers over UDP or TCP. No domain can be proven, and rows wait: no answer" + remedy}},
		{"redirected", dnscheck.Network{Port53: dnscheck.Port53Redirected, Why: "another"}, []string{
			"wrong    : port 53 is redirected: another server answers in the place of the name servers of the root, com and org. No domain can be proven, and rows wait: another" + remedy}},
		{"UDP only", dnscheck.Network{Port53: dnscheck.Port53NoTCP, Why: "refused"}, []string{
			"warning  : TCP to port 53 is closed: the name servers of the root, com and org answer over UDP only. Long answers are not seen: refused -> let TCP to port 53 of any address out"}},
		{"TCP only", dnscheck.Network{Port53: dnscheck.Port53NoUDP, Why: "no answer"}, []string{
			"warning  : UDP to port 53 is closed: the name servers of the root, com and org answer over TCP only. Each query waits a second for it: no answer -> let UDP to port 53 of any address out"}},
		{"not known", dnscheck.Network{}, []string{
			"warning  : it is not known whether domains' own name servers can be reached: no quorum of the resolvers has the addresses of the name servers of the root, com or org -> fix the resolvers first: they have the addresses"}},
		{"no IPv6", dnscheck.Network{Port53: dnscheck.Port53Open, IPv6: dnscheck.IPv6None, NoIPv6: "no route"}, []string{
			"warning  : there is no IPv6: domains that need name servers with IPv6 addresses only cannot be proven (no_ipv6, or too_few_name_servers): no route -> give this machine IPv6, with UDP and TCP to port 53 out"}},
		{"IPv6 black hole", blackHole, []string{
			"warning  : there is an IPv6 route, and no name server answers over it: checks and proofs wait for those addresses in vain: no answer -> let UDP and TCP to port 53 out over IPv6, or take the IPv6 route from this machine"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, complaints(health.NameServers(tc.network))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestMachine(t *testing.T) {
	if got := complaints(health.Limits{OpenFiles: 1 << 20, GoMemory: math.MaxInt64, Procs: 2}.Test(3)); got != nil {
		t.Errorf("got %q", got)
	}
	want := []string{
		"warning  machine: 1024 files may be open at a time, and 2 tenants may need more -> raise it to 3000 (LimitNOFILE= or ulimit -n)",
		"warning  machine: memory is limited to 512 MiB, and Go does not know: it may be killed rather than tidy up -> set GOMEMLIMIT=460MiB",
	}
	if diff := cmp.Diff(want, complaints(health.Limits{OpenFiles: 1024, Memory: 512 << 20, GoMemory: math.MaxInt64,
		Procs: 2}.Test(2))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "secret")
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	mode := func(path string, mode os.FileMode) {
		t.Helper()
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	if got := health.Files([]string{path}); got != nil {
		t.Errorf("got %v", got)
	}
	mode(path, 0o644)
	mode(dir, 0o700)
	if got := health.Files([]string{path}); got != nil {
		t.Errorf("its directory lets nobody in: got %v", got)
	}
	mode(dir, 0o755)
	want := []string{
		"warning  machine: secret file " + path +
			" may be read by every user of this machine (-rw-r--r--) -> have it owned by the worker's user, and then chmod o= " +
			path,
	}
	if diff := cmp.Diff(want, complaints(health.Files([]string{path}))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestFindingsAreEscaped(t *testing.T) {
	f := health.Finding{Level: health.Wrong, Subject: "redis", Text: "a\x1b[31m\nb" + strings.Repeat("é", 2000)}
	if line := f.String(); strings.ContainsAny(line, "\x1b\n") || len([]rune(line)) > 650 {
		t.Errorf("%q", line)
	}
}
