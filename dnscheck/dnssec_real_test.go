package dnscheck_test

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"orgops/dnscheck"
)

// signing describes the signatures of a test's zone.
type signing struct {
	zone   string
	args   []string                 // arguments of ldns-signzone
	txt    []string                 // arguments of a second signing for the TXT records' signatures; nil: none
	damage func(text string) string // changes the signed zone; nil: no change
	forget bool                     // the resolver's trust anchor is another key
}

// sign returns a zone that is signed with a new key when it is served, and the file of its
// trust anchor.
func (s signing) sign(t *testing.T, records string) (zone zoneFile, anchor string) {
	t.Helper()
	dir := t.TempDir()
	key := newKey(t, dir, s.zone)
	anchor = key + ".key"
	if s.forget {
		anchor = newKey(t, dir, s.zone) + ".key"
	}
	prepare := func(t *testing.T, master string) {
		t.Helper()
		with := func(args []string) string {
			ldns(t, dir, "ldns-signzone", append(append([]string(nil), args...), "-o", s.zone, "-f",
				master+".signed", master, key)...)
			text, err := os.ReadFile(master + ".signed")
			if err != nil {
				t.Fatal(err)
			}
			return string(text)
		}
		text := with(s.args)
		changed := text
		if s.txt != nil {
			instead := txtSignature.FindString(with(s.txt))
			changed = txtSignature.ReplaceAllLiteralString(text, instead)
		}
		if s.damage != nil {
			changed = s.damage(changed)
		}
		if changed == text && (s.txt != nil || s.damage != nil) {
			t.Fatalf("nothing of the zone %s was changed", s.zone)
		}
		if err := os.WriteFile(master, []byte(changed), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return zoneFile{zone: s.zone, records: records, prepare: prepare}, anchor
}

var txtSignature = regexp.MustCompile(`(?m)^.*\sRRSIG\sTXT\s.*$`)

// newKey makes a key, and returns the path of its files without extension.
func newKey(t *testing.T, dir, zone string) string {
	t.Helper()
	return filepath.Join(dir, ldns(t, dir, "ldns-keygen", "-a", "ECDSAP256SHA256", "-k", zone))
}

func ldns(t *testing.T, dir, program string, args ...string) string {
	t.Helper()
	cmd := exec.Command(daemon(t, program), args...)
	cmd.Dir = dir
	said, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %q: %v", program, args, err)
	}
	return strings.TrimSpace(string(said))
}

// validator runs a validating resolver for these zones' servers with the trust anchors in
// these files.
type validator func(t *testing.T, port uint16, zones map[string][]string, anchors []string) dnscheck.Resolver

func unboundValidates(t *testing.T, port uint16, zones map[string][]string, anchors []string) dnscheck.Resolver {
	t.Helper()
	settings := []string{`module-config: "validator iterator"`, "ede: yes", `trust-anchor-signaling: no`}
	for _, anchor := range anchors {
		settings = append(settings, `trust-anchor-file: "`+anchor+`"`)
	}
	return runUnbound(t, port, zones, settings...)
}

// bindValidates runs BIND at the addresses of Unbound.
func bindValidates(t *testing.T, port uint16, zones map[string][]string, anchors []string) dnscheck.Resolver {
	t.Helper()
	dir, own := t.TempDir(), freePort(t)
	var conf strings.Builder
	fmt.Fprintf(&conf, `options {
	directory %q;
	listen-on port %d { 127.0.0.1; };
	listen-on-v6 { none; };
	pid-file none;
	session-keyfile none;
	lock-file none;
	recursion yes;
	dnssec-validation yes;
	forward only;
	forwarders { %s port %d; };
};
controls { };
trust-anchors {
`, dir, own, realTLD, port)
	for _, anchor := range anchors {
		text, err := os.ReadFile(anchor)
		if err != nil {
			t.Fatal(err)
		}
		key := dnsKey.FindStringSubmatch(string(text))
		if key == nil {
			t.Fatalf("no key can be read in %q", text)
		}
		fmt.Fprintf(&conf, "\t%q static-key %s %q;\n", key[1], key[2], key[3])
	}
	conf.WriteString("};\n")
	for zone, addrs := range zones {
		fmt.Fprintf(&conf, "zone %q { type forward; forward only; forwarders {", zone)
		for _, addr := range addrs {
			fmt.Fprintf(&conf, " %s port %d;", addr, port)
		}
		conf.WriteString(" }; };\n")
	}
	start53(t, "named", dir, conf.String(), "-g", "-n", "1", "-c")
	at := netip.AddrPortFrom(netip.MustParseAddr(unboundAddr), port)
	for _, addr := range []string{unboundAddr, unboundToo} {
		relay(t, net.JoinHostPort(addr, fmt.Sprint(port)), net.JoinHostPort("127.0.0.1", fmt.Sprint(own)))
	}
	await(t, at.String(), "com", dns.TypeNS, 1, func(m *dns.Msg) bool { return len(m.Answer) > 0 })
	return dnscheck.Resolver{Addr: at, Name: "bind"}
}

// dnsKey matches a line of ldns-keygen: the zone; flags, protocol and algorithm; the key.
var dnsKey = regexp.MustCompile(`^(\S+)\s.*DNSKEY\s+(\d+ \d+ \d+)\s+(\S+)`)

// validating runs a validating resolver for these zones, which are at one server and have the
// same records. com. is not signed.
func validating(t *testing.T, by validator, records string, zones ...signing) (dnscheck.Resolver, uint16) {
	t.Helper()
	port := freePort(t)
	var anchors []string
	stubs := map[string][]string{"com": {realTLD}}
	delegations := "@ NS a.nic\na.nic A " + realTLD + "\n"
	var files []zoneFile
	for _, s := range zones {
		file, anchor := s.sign(t, records)
		files = append(files, file)
		anchors = append(anchors, anchor)
		stubs[s.zone] = []string{realOne}
		name := strings.TrimSuffix(s.zone, ".com")
		delegations += name + " NS ns1." + name + "\nns1." + name + " A " + realOne + "\n"
	}
	serveZones(t, nsdSoftware, port, realTLD, zoneFile{zone: "com", records: delegations})
	serveZones(t, nsdSoftware, port, realOne, files...)
	return by(t, port, stubs, anchors), port
}

const signedApex = "@ NS ns1\nns1 A " + realOne + "\n"

// TestValidatedAtRealResolvers has Unbound and BIND validate zones of NSD. Observations report
// their AD bit, which is not set for unsigned zones or for names that opt-out leaves unproven.
func TestValidatedAtRealResolvers(t *testing.T) {
	t.Parallel()
	for name, by := range map[string]validator{"Unbound": unboundValidates, "BIND": bindValidates} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			validated(t, by)
		})
	}
}

func validated(t *testing.T, by validator) {
	const records = signedApex + "_verify TXT " + token + "\n_other TXT " + other + "\nhere A 5.5.5.5\n*.wild TXT " +
		token + "\nalias CNAME _verify\n"
	denials := map[string][]string{"nsec.com": nil, "nsec3.com": {"-n"}, "optout.com": {"-n", "-p"}}
	var zones []signing
	for zone, args := range denials {
		zones = append(zones, signing{zone: zone, args: args})
	}
	resolver, port := validating(t, by, records, zones...)
	c := atReal(t, resolver, dnscheck.ModeResolvers, port)
	auto := atReal(t, resolver, dnscheck.ModeAuthority, port)
	demanding := build(t, dnscheck.Config{Resolvers: atBoth(resolver), RequireDNSSEC: true})
	tests := []struct {
		name   string
		state  dnscheck.State
		reason dnscheck.Reason
		open   bool // opt-out does not prove it
	}{
		{"_verify", dnscheck.Present, dnscheck.ReasonFound, false},
		{"alias", dnscheck.Present, dnscheck.ReasonFound, false},
		{"_verify.wild", dnscheck.Present, dnscheck.ReasonFound, true},
		{"_other", dnscheck.Absent, dnscheck.ReasonOtherValue, false},
		{"here", dnscheck.Absent, dnscheck.ReasonNoRecord, false},
		{"_gone", dnscheck.Absent, dnscheck.ReasonNoName, true},
		{"_verify.here", dnscheck.Absent, dnscheck.ReasonNoName, true},
	}
	for _, test := range tests {
		for zone := range denials {
			name := test.name + "." + zone
			v, err := c.Prove(t.Context(), name, token)
			wantReal(t, name, v, err, test.state, test.reason)
			wanted := !test.open || zone != "optout.com"
			if len(v.Observations) != 2 || v.Observations[0].Authenticated != wanted ||
				v.Observations[1].Authenticated != wanted {
				t.Errorf("%s: want authenticated to be %t: %+v", name, wanted, v.Observations)
			}
			if test.state != dnscheck.Present {
				continue
			}
			wantProof(t, auto, name, found)
			v, err = demanding.Prove(t.Context(), name, token)
			if wanted {
				wantReal(t, name+", required", v, err, dnscheck.Present, dnscheck.ReasonFound)
			} else {
				wantReal(t, name+", required", v, err, dnscheck.Unknown, dnscheck.ReasonUnsigned)
			}
		}
	}
}

// TestZoneWithoutSignaturesAtUnbound checks an unsigned zone below a signed one: its answers
// count, but are not authenticated.
func TestZoneWithoutSignaturesAtUnbound(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	signed, anchor := signing{zone: "example.com"}.sign(t, signedApex+"sub NS ns.sub\nns.sub A "+realChild+"\n")
	serveZones(t, nsdSoftware, port, realTLD, zoneFile{zone: "com", records: "@ NS a.nic\na.nic A " + realTLD + "\n"})
	serveZones(t, nsdSoftware, port, realOne, signed)
	serveZones(t, nsdSoftware, port, realChild, zoneFile{zone: "sub.example.com",
		records: "@ NS ns\nns A " + realChild + "\n_verify TXT " + token + "\n"})
	resolver := runUnbound(t, port, map[string][]string{"com": {realTLD}, "example.com": {realOne},
		"sub.example.com": {realChild}},
		`module-config: "validator iterator"`, `trust-anchor-file: "`+anchor+`"`, "trust-anchor-signaling: no")
	c := atReal(t, resolver, dnscheck.ModeResolvers, port)
	for name, want := range map[string]expected{
		"_verify.sub.example.com": {dnscheck.Present, dnscheck.ReasonFound},
		"_gone.sub.example.com":   {dnscheck.Absent, dnscheck.ReasonNoName},
		"sub.example.com":         {dnscheck.Absent, dnscheck.ReasonNoRecord},
	} {
		v, err := c.Prove(t.Context(), name, token)
		wantReal(t, name, v, err, want.state, want.reason)
		if len(v.Observations) != 2 || v.Observations[0].Authenticated || v.Observations[1].Authenticated {
			t.Errorf("%s: want it not to be authenticated: %+v", name, v.Observations)
		}
	}
}

// TestBogusAtRealResolvers breaks signed zones in the ways of extended errors 6 to 12. Unbound
// reports the error only to the first query, BIND 9.18 reports none. No broken zone is absent,
// though its own server still answers with the token.
func TestBogusAtRealResolvers(t *testing.T) {
	t.Parallel()
	t.Run("Unbound", func(t *testing.T) {
		t.Parallel()
		bogusAt(t, unboundValidates, dnscheck.ReasonDNSSEC)
	})
	t.Run("BIND", func(t *testing.T) {
		t.Parallel()
		bogusAt(t, bindValidates, dnscheck.ReasonServFail)
	})
}

func bogusAt(t *testing.T, by validator, reason dnscheck.Reason) {
	altered := regexp.MustCompile(`(?m)^(.*RRSIG\s+TXT .* )....(.*)$`)
	without := func(lines string) func(string) string {
		line := regexp.MustCompile(`(?m)^.*\s` + lines + `\s.*\n`)
		return func(text string) string { return line.ReplaceAllString(text, "") }
	}
	yes, no := "_verify", "_gone"
	zones := []struct {
		signing

		host string
	}{
		{
			signing{zone: "altered.com", damage: func(text string) string {
				return altered.ReplaceAllString(text, "${1}AAAA${2}")
			}}, yes,
		},
		{signing{zone: "expired.com", txt: []string{"-i", "20240101", "-e", "20240201"}}, yes},
		{signing{zone: "early.com", txt: []string{"-i", "20361201", "-e", "20361231"}}, yes},
		{signing{zone: "all-expired.com", args: []string{"-i", "20240101", "-e", "20240201"}}, yes},
		{signing{zone: "rekeyed.com", forget: true}, yes},
		{signing{zone: "stripped.com", damage: without(`RRSIG\s+TXT`)}, yes},
		{signing{zone: "undenied.com", damage: without(`NSEC`)}, no},
		{signing{zone: "undenied3.com", args: []string{"-n"}, damage: without(`NSEC3`)}, no},
	}
	var signings []signing
	for _, z := range zones {
		signings = append(signings, z.signing)
	}
	resolver, port := validating(t, by, signedApex+"_verify TXT "+token+"\n", signings...)
	for _, z := range zones {
		t.Run(z.zone, func(t *testing.T) {
			name := z.host + "." + z.zone
			v, err := atReal(t, resolver, dnscheck.ModeResolvers, port).Prove(t.Context(), name, token)
			wantReal(t, "the resolver", v, err, dnscheck.Unknown, reason)
			wantBogus(t, v)
			if z.host == no {
				return
			}
			auto := atReal(t, resolver, dnscheck.ModeAuthority, port)
			v, err = auto.Check(t.Context(), name, token)
			wantReal(t, "the name server", v, err, dnscheck.Present, dnscheck.ReasonFound)
			v, err = auto.Prove(t.Context(), name, token)
			wantReal(t, "a proof", v, err, dnscheck.Unknown, reason)
			wantBogus(t, v)
		})
	}
}

var blamesDNSSEC = regexp.MustCompile(`The resolver says: .* \((6|7|8|9|10|11|12)\)`)

// wantBogus expects the sentence to name DNSSEC, and the extended error if there is one.
func wantBogus(t *testing.T, v dnscheck.Verdict) {
	t.Helper()
	if v.Reason != dnscheck.ReasonDNSSEC {
		return
	}
	said := v.Sentence()
	if !strings.Contains(said, "DNSSEC signatures do not validate") || !blamesDNSSEC.MatchString(said) {
		t.Errorf("sentence %q, want DNSSEC and its extended error in it", said)
	}
}
