package dnscheck_test

import (
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"

	"orgops/dnscheck"
)

// The same against servers that others wrote: NSD holds com. and, twice, example.com.; Unbound resolves for us, and remembers
// what does not exist for an hour, as the zone says.
func TestFreshRecordAtRealServers(t *testing.T) {
	port := freePort(t)
	const tld, one, two = "127.0.53.1", "127.0.53.2", "127.0.53.3"
	runNSD(t, port, tld, "com", `
@ NS a.nic
a.nic A `+tld+`
example NS ns1.example
example NS ns2.example
ns1.example A `+one+`
ns2.example A `+two+"\n")
	records := "@ NS ns1\n@ NS ns2\nns1 A " + one + "\nns2 A " + two + "\nalias CNAME " + host + ".\n"
	first := runNSD(t, port, one, "example.com", records)
	second := runNSD(t, port, two, "example.com", records)
	resolver := runUnbound(t, port, map[string][]string{"com": {tld}, "example.com": {one, two}})
	at := func(mode dnscheck.Mode) *dnscheck.Checker {
		return build(t, dnscheck.Config{Resolvers: []dnscheck.Resolver{resolver}, Mode: mode, NameServerPort: port, AnyNameServer: true})
	}
	judge := func(what string, v dnscheck.Verdict, err error, state dnscheck.State, reason dnscheck.Reason) {
		t.Helper()
		if err != nil {
			t.Fatal(what, err)
		}
		if v.State != state || v.Reason != reason {
			t.Errorf("%s: %s (%s), want %s (%s): %+v", what, v.State, v.Reason, state, reason, v)
		}
	}
	auto := at(dnscheck.ModeAuto)

	v, err := auto.Look(t.Context(), host, token)
	judge("before it is published", v, err, dnscheck.Absent, dnscheck.ReasonNoName)
	if v.Basis != dnscheck.ByAuthority || len(v.Observations) != 2 {
		t.Errorf("basis %s, observations %+v", v.Basis, v.Observations)
	}
	v, err = auto.Prove(t.Context(), host, token)
	judge("a proof before", v, err, dnscheck.Absent, dnscheck.ReasonNoName)

	first.publish(t, records+host+". TXT "+token+"\n")
	v, err = auto.Look(t.Context(), host, token)
	judge("at one of two servers", v, err, dnscheck.Unknown, dnscheck.ReasonServersDisagree)

	second.publish(t, records+host+". TXT "+token+"\n")
	for _, name := range []string{host, "alias.example.com"} {
		v, err = auto.Look(t.Context(), name, token)
		judge("published: look at "+name, v, err, dnscheck.Present, dnscheck.ReasonFound)
		v, err = auto.Prove(t.Context(), name, token)
		judge("published: proof of "+name, v, err, dnscheck.Present, dnscheck.ReasonFound)
		if v.Basis != dnscheck.ByBoth {
			t.Errorf("basis %s", v.Basis)
		}
	}

	// What looking at the resolvers would have done.
	const late = "_verify.org-2.example.com"
	v, err = at(dnscheck.ModeResolvers).Look(t.Context(), late, token)
	judge("the resolver before", v, err, dnscheck.Absent, dnscheck.ReasonNoName)
	both := records + host + ". TXT " + token + "\n" + late + ". TXT " + token + "\n"
	first.publish(t, both)
	second.publish(t, both)
	v, err = at(dnscheck.ModeResolvers).Look(t.Context(), late, token)
	judge("the resolver after", v, err, dnscheck.Absent, dnscheck.ReasonNoName)
	v, err = auto.Look(t.Context(), late, token)
	judge("the name servers after", v, err, dnscheck.Present, dnscheck.ReasonFound)
	v, err = auto.Prove(t.Context(), late, token)
	judge("a proof while the resolver remembers", v, err, dnscheck.Unknown, dnscheck.ReasonLag)
	if v.NegativeTTL <= 0 {
		t.Error("how long the resolver will remember is not told")
	}
}

// nsd is one running NSD with one zone.
type nsd struct {
	process    *os.Process
	at         string
	zone, path string
	serial     uint32
}

func runNSD(t *testing.T, port uint16, addr, zone, records string) *nsd {
	t.Helper()
	dir := t.TempDir()
	n := &nsd{at: net.JoinHostPort(addr, fmt.Sprint(port)), zone: zone, path: filepath.Join(dir, "zone")}
	n.write(t, records)
	conf := fmt.Sprintf(`server:
  ip-address: %s@%d
  server-count: 1
  username: ""
  chroot: ""
  zonesdir: %q
  pidfile: %q
  xfrdfile: %q
  xfrdir: %q
  zonelistfile: %q
  database: ""
  logfile: %q
remote-control:
  control-enable: no
zone:
  name: %s
  zonefile: zone
`, addr, port, dir, filepath.Join(dir, "pid"), filepath.Join(dir, "xfrd"), dir, filepath.Join(dir, "list"), filepath.Join(dir, "log"), zone)
	n.process = start53(t, "nsd", dir, conf, "-d", "-c")
	n.await(t)
	return n
}

func (n *nsd) write(t *testing.T, records string) {
	t.Helper()
	n.serial++
	zone := fmt.Sprintf("$ORIGIN %s.\n$TTL 3600\n@ SOA a.nic root %d 3600 3600 3600 3600\n%s", n.zone, n.serial, records)
	if err := os.WriteFile(n.path+".new", []byte(zone), 0o644); err != nil {
		t.Fatal(err)
	}
	later := time.Now().Add(time.Duration(n.serial) * time.Second) // NSD tells a new file by its time
	if err := os.Chtimes(n.path+".new", later, later); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(n.path+".new", n.path); err != nil {
		t.Fatal(err)
	}
}

func (n *nsd) publish(t *testing.T, records string) {
	t.Helper()
	n.write(t, records)
	if err := n.process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	n.await(t)
}

// await returns once the server has the zone as written.
func (n *nsd) await(t *testing.T) {
	t.Helper()
	await(t, n.at, n.zone, dns.TypeSOA, func(m *dns.Msg) bool {
		for _, rr := range m.Answer {
			if soa, ok := rr.(*dns.SOA); ok && soa.Serial == n.serial {
				return true
			}
		}
		return false
	})
}

func await(t *testing.T, at, name string, kind uint16, well func(*dns.Msg) bool) {
	t.Helper()
	q := new(dns.Msg)
	q.SetQuestion(dns.Fqdn(name), kind)
	client := &dns.Client{Timeout: time.Second}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	var last error
	inRow := 0
	for began := time.Now(); time.Since(began) < time.Minute; <-tick.C {
		m, _, err := client.ExchangeContext(t.Context(), q, at)
		if err != nil || !well(m) {
			last, inRow = err, 0
			continue
		}
		if inRow++; inRow == 10 { // a server that reloads answers as the old and as the new one for a moment
			return
		}
	}
	t.Fatalf("%s does not give %s: %v", at, name, last)
}

func runUnbound(t *testing.T, port uint16, zones map[string][]string) dnscheck.Resolver {
	t.Helper()
	dir := t.TempDir()
	own := netip.AddrPortFrom(netip.MustParseAddr("127.0.53.9"), port)
	var conf strings.Builder
	fmt.Fprintf(&conf, `server:
  interface: %s@%d
  do-not-query-localhost: no
  do-ip6: no
  username: ""
  chroot: ""
  directory: %q
  pidfile: ""
  use-syslog: no
  module-config: "iterator"
  num-threads: 1
remote-control:
  control-enable: no
`, own.Addr(), port, dir)
	for zone, addrs := range zones {
		fmt.Fprintf(&conf, "stub-zone:\n  name: %q\n", zone)
		for _, addr := range addrs {
			fmt.Fprintf(&conf, "  stub-addr: %s@%d\n", addr, port)
		}
	}
	start53(t, "unbound", dir, conf.String(), "-d", "-p", "-c")
	await(t, own.String(), "com", dns.TypeNS, func(m *dns.Msg) bool { return len(m.Answer) > 0 })
	return dnscheck.Resolver{Addr: own, Name: "unbound"}
}

// start53 runs a DNS server till the test ends.
func start53(t *testing.T, program, dir, conf string, args ...string) *os.Process {
	t.Helper()
	path := filepath.Join(dir, "conf")
	if err := os.WriteFile(path, []byte(conf), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(daemon(t, program), append(args, path)...)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		if t.Failed() {
			log, _ := os.ReadFile(filepath.Join(dir, "log"))
			t.Logf("%s: %s%s", program, said.String(), log)
		}
	})
	return cmd.Process
}

// daemon finds a server as Debian installs it, or skips the test.
func daemon(t *testing.T, program string) string {
	t.Helper()
	for _, dir := range []string{"/usr/sbin", "/usr/local/sbin", "/usr/bin"} {
		path := filepath.Join(dir, program)
		if info, err := os.Stat(path); err == nil && info.Mode()&0o111 != 0 {
			return path
		}
	}
	t.Skipf("%s is not installed (apt-get install nsd unbound)", program)
	return ""
}

// freePort is one that is free at all the addresses of this test, as far as can be told.
func freePort(t *testing.T) uint16 {
	t.Helper()
	packets, listener := listen(t)
	_ = packets.Close()
	_ = listener.Close()
	return listener.Addr().(*net.TCPAddr).AddrPort().Port()
}
