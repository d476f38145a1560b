package dnscheck_test

import (
	"maps"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"orgops/dnscheck"
	"orgops/dnscheck/report"
)

// Addresses of the servers in these tests.
const (
	realTLD   = "127.0.53.1"
	realOne   = "127.0.53.2"
	realTwo   = "127.0.53.3"
	realChild = "127.0.53.4"
	realElse  = "127.0.53.5"
)

// pairs maps a name to the software of a zone's two servers.
var pairs = map[string][2]software{
	"NSD":           {nsdSoftware, nsdSoftware},
	"Knot":          {knotSoftware, knotSoftware},
	"BIND":          {bindSoftware, bindSoftware},
	"NSD and Knot":  {nsdSoftware, knotSoftware},
	"BIND and Knot": {bindSoftware, knotSoftware},
}

// pairsToRun returns the pairs: all of them if long tests run, and otherwise two, which have all
// of the programs.
func pairsToRun() map[string][2]software {
	all := maps.Clone(pairs)
	if os.Getenv("ORGOPS_TEST_LONG") == "" {
		maps.DeleteFunc(all, func(name string, _ [2]software) bool { return !strings.Contains(name, " and ") })
	}
	return all
}

const (
	realDelegation = "@ NS a.nic\na.nic A " + realTLD + "\nexample NS ns1.example\nexample NS ns2.example\n" +
		"ns1.example A " + realOne + "\nns2.example A " + realTwo + "\n"
	realApex = "@ NS ns1\n@ NS ns2\nns1 A " + realOne + "\nns2 A " + realTwo + "\n"
)

// TestFreshRecordAtRealServers publishes a record at real servers: one for com., two for
// example.com. Unbound is the resolver, and caches absences for an hour.
func TestFreshRecordAtRealServers(t *testing.T) {
	t.Parallel()
	for name, by := range pairsToRun() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			freshRecord(t, by)
		})
	}
}

func freshRecord(t *testing.T, by [2]software) {
	port := freePort(t)
	serveZones(t, by[0], port, realTLD, zoneFile{zone: "com", records: realDelegation})
	records := realApex + "alias CNAME " + host + ".\n"
	first := serveZones(t, by[0], port, realOne, zoneFile{zone: "example.com", records: records})
	second := serveZones(t, by[1], port, realTwo, zoneFile{zone: "example.com", records: records})
	resolver := runUnbound(t, port, map[string][]string{"com": {realTLD}, "example.com": {realOne, realTwo}})
	at := func(mode dnscheck.Mode) *dnscheck.Checker { return atReal(t, resolver, mode, port) }
	auto := at(dnscheck.ModeAuthority)

	v, err := auto.Check(t.Context(), host, token)
	wantReal(t, "before it is published", v, err, dnscheck.Absent, dnscheck.ReasonNoName)
	if v.Basis != dnscheck.ByAuthority || len(v.Observations) != 2 {
		t.Errorf("basis %s, observations %+v", v.Basis, v.Observations)
	}
	v, err = auto.Prove(t.Context(), host, token)
	wantReal(t, "a proof before", v, err, dnscheck.Absent, dnscheck.ReasonNoName)

	first.publish(t, records+host+". TXT "+token+"\n")
	v, err = auto.Check(t.Context(), host, token)
	wantReal(t, "at one of two servers", v, err, dnscheck.Unknown, dnscheck.ReasonServersDisagree)

	second.publish(t, records+host+". TXT "+token+"\n")
	for _, name := range []string{host, "alias.example.com"} {
		wantProof(t, auto, name, found)
	}

	// In ModeResolvers, the cached absence hides the new record.
	const late = "_verify.org-2.example.com"
	v, err = at(dnscheck.ModeResolvers).Check(t.Context(), late, token)
	wantReal(t, "the resolver before", v, err, dnscheck.Absent, dnscheck.ReasonNoName)
	both := records + host + ". TXT " + token + "\n" + late + ". TXT " + token + "\n"
	first.publish(t, both)
	second.publish(t, both)
	v, err = at(dnscheck.ModeResolvers).Check(t.Context(), late, token)
	wantReal(t, "the resolver after", v, err, dnscheck.Absent, dnscheck.ReasonNoName)
	v, err = auto.Check(t.Context(), late, token)
	wantReal(t, "the name servers after", v, err, dnscheck.Present, dnscheck.ReasonFound)
	v, err = auto.Prove(t.Context(), late, token)
	wantReal(t, "a proof while the resolver remembers", v, err, dnscheck.Unknown, dnscheck.ReasonLag)
	if v.NegativeTTL <= 0 {
		t.Error("how long the resolver will remember is not told")
	}
}

// TestZonesAtRealServers checks records behind wildcards, DNAMEs, zones at the verification
// label and above it, and a server with both the parent and the child.
func TestZonesAtRealServers(t *testing.T) {
	t.Parallel()
	cut := func(zone, addr string) string { return zone + " NS ns." + zone + "\nns." + zone + " A " + addr + "\n" }
	apex := func(addr string) string { return "@ NS ns\nns A " + addr + "\n" }
	for name, by := range pairsToRun() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			port := freePort(t)
			serveZones(t, by[0], port, realTLD, zoneFile{zone: "com", records: realDelegation + cut("elsewhere", realElse)})
			zone := zoneFile{zone: "example.com", records: realApex +
				"*.wild TXT " + token + "\n*.parked CNAME _verify.wild\nhere.parked A 5.5.5.5\n" +
				"old DNAME new\n_verify.new TXT " + token + "\nmoved DNAME elsewhere.com.\n" +
				cut("_ss-verification.org", realChild) + cut("org-2", realChild)}
			// The second server also holds the child, and answers for it without a referral.
			child := zoneFile{zone: "_ss-verification.org.example.com", records: apex(realChild) + "@ TXT " + token + "\n"}
			serveZones(t, by[0], port, realOne, zone)
			serveZones(t, by[1], port, realTwo, zone, child)
			serveZones(t, by[1], port, realChild, child, zoneFile{zone: "org-2.example.com",
				records: apex(realChild) + "_verify TXT " + token + "\n"})
			serveZones(t, by[0], port, realElse, zoneFile{zone: "elsewhere.com",
				records: apex(realElse) + "_verify TXT " + token + "\n"})
			resolver := runUnbound(t, port, map[string][]string{
				"com": {realTLD}, "example.com": {realOne, realTwo}, "elsewhere.com": {realElse}, child.zone: {realChild},
				"org-2.example.com": {realChild},
			})
			c := atReal(t, resolver, dnscheck.ModeAuthority, port)
			for _, name := range []string{
				"_verify.wild.example.com", "_verify.parked.example.com", "_verify.old.example.com",
				"_ss-verification.org.example.com", "_verify.org-2.example.com",
			} {
				wantProof(t, c, name, found)
			}
			wantProof(t, c, "_verify.moved.example.com", isWildcardAlias)
			for name, reason := range map[string]dnscheck.Reason{
				"_verify.here.parked.example.com": dnscheck.ReasonNoName, // an existing name hides the wildcard from names below it
				"_other.old.example.com":          dnscheck.ReasonNoName,
				"_other.moved.example.com":        dnscheck.ReasonNoName,
				"wild.example.com":                dnscheck.ReasonNoRecord,
				"_verify.org-3.example.com":       dnscheck.ReasonNoName,
				"_verify.nobody.com":              dnscheck.ReasonNoName,
			} {
				v, err := c.Check(t.Context(), name, token)
				wantReal(t, name, v, err, dnscheck.Absent, reason)
				if v.Basis != dnscheck.ByAuthority {
					t.Errorf("%s: basis %s", name, v.Basis)
				}
			}
			// One server denies the name below its child zone, the other refers to the child. A hostile
			// server of the parent could answer the same.
			const below = "x._ss-verification.org.example.com"
			v, err := atReal(t, resolver, dnscheck.ModeAuthority, port).Check(t.Context(), below, token)
			wantReal(t, below, v, err, dnscheck.Unknown, dnscheck.ReasonServersDisagree)
			// Where the child's name servers are known, from names above, they alone are asked.
			v, err = c.Check(t.Context(), below, token)
			wantReal(t, below+" at the child", v, err, dnscheck.Absent, dnscheck.ReasonNoName)
		})
	}
}

// TestDiagnosisAtRealServers has a zone list a server that com. does not delegate to. The
// record is at that server.
func TestDiagnosisAtRealServers(t *testing.T) {
	t.Parallel()
	for name, by := range pairsToRun() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			port := freePort(t)
			serveZones(t, by[0], port, realTLD, zoneFile{zone: "com", records: realDelegation})
			records := realApex + "@ NS ns3\nns3 A " + realElse + "\n"
			serveZones(t, by[0], port, realOne, zoneFile{zone: "example.com", records: records})
			serveZones(t, by[1], port, realTwo, zoneFile{zone: "example.com", records: records})
			serveZones(t, by[1], port, realElse, zoneFile{zone: "example.com",
				records: records + host + ". TXT " + token + "\n"})
			resolver := runUnbound(t, port, map[string][]string{"com": {realTLD}, "example.com": {realOne, realTwo}})
			d := diagnose(t, atReal(t, resolver, dnscheck.ModeAuthority, port), token)
			if diff := cmp.Diff([]report.Mistake{report.MistakeOtherServers}, mistakes(d)); diff != "" {
				t.Errorf("mistakes (-want +got):\n%s\n%+v", diff, d)
			}
		})
	}
}

// TestDisproofAtRealServers removes a record that Unbound has cached from one server after the
// other. It then publishes a record at one server while Unbound caches its absence.
func TestDisproofAtRealServers(t *testing.T) {
	t.Parallel()
	for name, by := range pairsToRun() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			port := freePort(t)
			serveZones(t, by[0], port, realTLD, zoneFile{zone: "com", records: realDelegation})
			const fresh = "_verify.org-2.example.com"
			kept, unasked := host+". TXT "+token+"\n", fresh+". TXT "+token+"\n"
			first := serveZones(t, by[0], port, realOne, zoneFile{zone: "example.com", records: realApex + kept + unasked})
			second := serveZones(t, by[1], port, realTwo, zoneFile{zone: "example.com", records: realApex + kept + unasked})
			resolver := runUnbound(t, port, map[string][]string{"com": {realTLD}, "example.com": {realOne, realTwo}})
			c := atReal(t, resolver, dnscheck.ModeAuthority, port)
			says := func(what, host string, state dnscheck.State, reason dnscheck.Reason, basis dnscheck.Basis) {
				t.Helper()
				v, err := c.Disprove(t.Context(), host, token)
				wantReal(t, what, v, err, state, reason)
				if v.Basis != basis || v.Operator != "example" || len(v.Observations) != 4 {
					t.Errorf("%s: %+v", what, v)
				}
			}
			says("at both", host, dnscheck.Present, dnscheck.ReasonFound, dnscheck.ByBoth)
			first.publish(t, realApex+unasked)
			says("at one", host, dnscheck.Present, dnscheck.ReasonFound, dnscheck.ByBoth)
			second.publish(t, realApex)
			says("at none, and the resolver has kept it", host, dnscheck.Present, dnscheck.ReasonFound, dnscheck.ByResolvers)
			first.publish(t, realApex)
			says("nowhere", fresh, dnscheck.Absent, dnscheck.ReasonNoName, dnscheck.ByBoth)
			second.publish(t, realApex+unasked)
			says("at one, after the resolver was told that it is not", fresh, dnscheck.Present,
				dnscheck.ReasonFound, dnscheck.ByAuthority)
			if operator := operatorBy(t, c, fresh); operator != "example" {
				t.Errorf("operator %q by the resolver", operator)
			}
		})
	}
}

// atBoth returns the resolver at both of its addresses.
func atBoth(unbound dnscheck.Resolver) []dnscheck.Resolver {
	too := dnscheck.Resolver{Addr: netip.AddrPortFrom(netip.MustParseAddr(unboundToo), unbound.Addr.Port()),
		Name: "unbound too"}
	return []dnscheck.Resolver{unbound, too}
}

func atReal(t *testing.T, resolver dnscheck.Resolver, mode dnscheck.Mode, port uint16) *dnscheck.Checker {
	t.Helper()
	return build(t, dnscheck.Config{Resolvers: atBoth(resolver), Mode: mode, NameServerPort: port, AnyNameServer: true})
}

func wantReal(t *testing.T, what string, v dnscheck.Verdict, err error, state dnscheck.State, reason dnscheck.Reason) {
	t.Helper()
	if err != nil {
		t.Fatal(what, err)
	}
	if v.State != state || v.Reason != reason {
		t.Errorf("%s: %s (%s), want %s (%s): %+v", what, v.State, v.Reason, state, reason, v)
	}
}

// wantProof expects a check by the name servers to find the token, and a proof by both.
// wantProof wants a check to find the token, and the verdict of a proof. Resolvers are asked only
// if the name servers prove.
func wantProof(t *testing.T, c *dnscheck.Checker, name string, want expected) {
	t.Helper()
	v, err := c.Check(t.Context(), name, token)
	wantReal(t, "look at "+name, v, err, dnscheck.Present, dnscheck.ReasonFound)
	if v.Basis != dnscheck.ByAuthority {
		t.Errorf("look at %s: basis %s", name, v.Basis)
	}
	v, err = c.Prove(t.Context(), name, token)
	wantReal(t, "proof of "+name, v, err, want.state, want.reason)
	basis := dnscheck.ByAuthority
	if want == found {
		basis = dnscheck.ByBoth
	}
	if v.Basis != basis {
		t.Errorf("proof of %s: basis %s, want %s", name, v.Basis, basis)
	}
}

// TestStrictProofsAtRealServers checks aliases at real servers, also those of wildcards, with
// existing and missing parent names.
func TestStrictProofsAtRealServers(t *testing.T) {
	t.Parallel()
	for name, by := range pairsToRun() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			port := freePort(t)
			serveZones(t, by[0], port, realTLD, zoneFile{zone: "com",
				records: realDelegation + "elsewhere NS ns.elsewhere\nns.elsewhere A " + realElse + "\n"})
			records := realApex + "*.wild TXT " + token + "\n_own.wild TXT " + token + "\n" +
				"*.parked CNAME _v.elsewhere.com.\n_own.parked TXT " + token +
				"\n*.gone CNAME gone.elsewhere.com.\n_own.gone TXT " + token + "\n" +
				"_v.plain TXT " + token + "\n_v.near CNAME _v.plain\n_v.far CNAME _v.elsewhere.com.\nmoved DNAME elsewhere.com.\n"
			for i, addr := range []string{realOne, realTwo} {
				serveZones(t, by[i], port, addr, zoneFile{zone: "example.com", records: records})
			}
			serveZones(t, by[0], port, realElse, zoneFile{zone: "elsewhere.com",
				records: "@ NS ns\nns A " + realElse + "\n_v TXT " + token + "\n"})
			resolver := runUnbound(t, port, map[string][]string{"com": {realTLD}, "example.com": {realOne, realTwo},
				"elsewhere.com": {realElse}})
			strict := func(c dnscheck.Config) *dnscheck.Checker {
				c.Resolvers, c.Mode, c.NameServerPort, c.AnyNameServer = atBoth(resolver), dnscheck.ModeAuthority, port, true
				return build(t, c)
			}
			lax, aliases := strict(dnscheck.Config{}), strict(strictAliases)
			for _, test := range []struct {
				host    string
				want    expected
				refused expected // where aliases that leave the domain are refused
			}{
				{"_v.plain.example.com", found, found},
				{"_v.near.example.com", found, found},
				{"_v.far.example.com", found, isAliasOut},
				{"_v.moved.example.com", isWildcardAlias, isAliasOut},
				{"_v.wild.example.com", found, found},
				{"_v.none.wild.example.com", found, found}, // none.wild.example.com does not exist
				{"_own.wild.example.com", found, found},
				{"_own.parked.example.com", found, found},
				{"_own.gone.example.com", found, found},
				{"_v.parked.example.com", isWildcardAlias, isAliasOut},
				{"_v.none.parked.example.com", isWildcardAlias, isAliasOut},
			} {
				wantProof(t, lax, test.host, test.want)
				v, err := aliases.Prove(t.Context(), test.host, token)
				wantReal(t, test.host+" without aliases", v, err, test.refused.state, test.refused.reason)
			}
		})
	}
}
