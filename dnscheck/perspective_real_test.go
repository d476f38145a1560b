package dnscheck_test

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"

	"orgops/dnscheck"
)

// documented returns Unbound's configuration of docs/perspectives.md.
func documented(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "docs", "perspectives.md"))
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```yaml\n(server:\n.*?)```").FindSubmatch(page)
	if block == nil {
		t.Fatal("docs/perspectives.md has no configuration of Unbound")
	}
	return string(block[1])
}

// region is an Unbound of one perspective, with the zones that it sees.
type region struct {
	name, addr string
	zones      map[string]string // zone -> its name server
}

// runRegion runs an Unbound with the configuration of docs/perspectives.md, except for
// addresses, ports and files, and with settings that a test's process needs.
func runRegion(t *testing.T, a certifier, r region, port, overHTTPS uint16, anchor string) dnscheck.Resolver {
	t.Helper()
	dir := t.TempDir()
	name := "dns." + r.name + ".example.com"
	cert := a.issue(func(c *x509.Certificate) { c.DNSNames, c.IPAddresses = []string{name}, nil })
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{"fullchain.pem": {Type: "CERTIFICATE", Bytes: cert.Certificate[0]},
		"key.pem": {Type: "PRIVATE KEY", Bytes: key}} {
		if err := os.WriteFile(filepath.Join(dir, file), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	conf := documented(t)
	for _, change := range []struct{ of, to string }{
		// the second interface serves the readiness check
		{"interface: 198.51.100.10@443", fmt.Sprintf("interface: %s@%d\n  interface: %s@%d", r.addr,
			overHTTPS, r.addr, port)},
		{"https-port: 443", fmt.Sprintf("https-port: %d", overHTTPS)},
		{"/etc/unbound/tls/fullchain.pem", filepath.Join(dir, "fullchain.pem")},
		{"/etc/unbound/tls/key.pem", filepath.Join(dir, "key.pem")},
		{"access-control: 203.0.113.0/24 allow", "access-control: 127.0.0.0/8 allow"},
	} {
		if strings.Count(conf, change.of) != 1 {
			t.Fatalf("docs/perspectives.md: want %q once in Unbound's configuration", change.of)
		}
		conf = strings.Replace(conf, change.of, change.to, 1)
	}
	// Debian's package gives the trust anchor of the root in a file of its own.
	conf += fmt.Sprintf("  trust-anchor-file: %q\n  trust-anchor-signaling: no\n  do-not-query-localhost: no\n"+
		"  outgoing-port-avoid: 20000-32000\n  do-ip6: no\n  num-threads: 1\n  username: \"\"\n  chroot: \"\"\n"+
		"  directory: %q\n  pidfile: \"\"\n  use-syslog: no\n", anchor, dir)
	for zone, server := range r.zones {
		conf += fmt.Sprintf("stub-zone:\n  name: %q\n  stub-addr: %s@%d\n", zone, server, port)
	}
	start53(t, "unbound", dir, conf, "-d", "-p", "-c")
	await(t, fmt.Sprintf("%s:%d", r.addr, port), "com", dns.TypeNS, 1, func(m *dns.Msg) bool { return len(m.Answer) > 0 })
	resolver, err := dnscheck.ParseResolver(fmt.Sprintf("https://%s:%d/dns-query#%s@%s", r.addr, overHTTPS, name, r.name))
	if err != nil {
		t.Fatal(err)
	}
	return resolver
}

// TestPerspectivesAtUnbound runs three Unbounds of docs/perspectives.md. They prove
// signed.com, whose signatures they validate, and plain.com. Two of them are in one
// perspective and see a forged hijacked.com, which proves nothing.
func TestPerspectivesAtUnbound(t *testing.T) {
	t.Parallel()
	const records = "@ NS ns1\nns1 A " + realOne + "\n"
	port, overHTTPS := freePort(t), freePort(t)
	signed, anchor := signing{zone: "signed.com"}.sign(t, records+"_verify TXT "+token+"\n")
	delegations := "@ NS a.nic\na.nic A " + realTLD + "\n"
	for _, name := range []string{"signed", "plain", "hijacked"} {
		delegations += name + " NS ns1." + name + "\nns1." + name + " A " + realOne + "\n"
	}
	serveZones(t, nsdSoftware, port, realTLD, zoneFile{zone: "com", records: delegations})
	serveZones(t, nsdSoftware, port, realOne, signed, zoneFile{zone: "plain.com",
		records: records + "_verify TXT " + token + "\n"}, zoneFile{zone: "hijacked.com", records: records})
	serveZones(t, nsdSoftware, port, realTwo, zoneFile{zone: "hijacked.com",
		records: records + "_verify TXT " + token + "\n"})
	a := newCertifier(t)
	var resolvers []dnscheck.Resolver
	for i, name := range []string{"eu", "us", "ap"} {
		zones := map[string]string{"com": realTLD, "signed.com": realOne, "plain.com": realOne, "hijacked.com": realTwo}
		if name == "ap" {
			zones["hijacked.com"] = realOne
		}
		resolvers = append(resolvers, runRegion(t, a, region{name, fmt.Sprintf("127.0.53.%d", 21+i), zones},
			port, overHTTPS, anchor))
	}
	proves := func(config dnscheck.Config, name string, state dnscheck.State, reason dnscheck.Reason) dnscheck.Verdict {
		t.Helper()
		config.RootCAs, config.NameServerPort, config.AnyNameServer = a.roots, port, true
		v, err := build(t, config).Prove(t.Context(), name, token)
		wantReal(t, name, v, err, state, reason)
		return v
	}
	for _, mode := range []dnscheck.Mode{dnscheck.ModeResolvers, dnscheck.ModeAuthority} {
		for name, authenticated := range map[string]bool{"_verify.signed.com": true, "_verify.plain.com": false} {
			v := proves(dnscheck.Config{Resolvers: resolvers, Mode: mode}, name, dnscheck.Present, dnscheck.ReasonFound)
			var got []string
			for _, o := range v.Observations {
				if !o.Authority {
					got = append(got, fmt.Sprintf("%s of %s over %s, authenticated: %t", o.Perspective, o.Operator,
						o.Transport, o.Authenticated))
				}
			}
			var wanted []string
			for i, name := range []string{"eu", "us", "ap"} {
				wanted = append(wanted, fmt.Sprintf("%s of %s over https, authenticated: %t", name,
					netip.AddrPortFrom(resolvers[i].Addr.Addr(), overHTTPS), authenticated))
			}
			if diff := cmp.Diff(wanted, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
		proves(dnscheck.Config{Resolvers: resolvers, Mode: mode}, "_gone.plain.com", dnscheck.Absent, dnscheck.ReasonNoName)
	}
	resolvers[1].Perspective = "eu"
	proves(dnscheck.Config{Resolvers: resolvers}, "_verify.hijacked.com", dnscheck.Unknown, dnscheck.ReasonOnePerspective)
	proves(dnscheck.Config{Resolvers: resolvers, Mode: dnscheck.ModeAuthority}, "_verify.hijacked.com",
		dnscheck.Absent, dnscheck.ReasonNoName)
}
