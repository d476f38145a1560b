package dnscheck_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"

	"orgops/dnscheck"
)

// Tests against real servers share these helpers. Each test starts its own servers, at its own
// loopback addresses, and is skipped if a server is not installed.

// zoneFile is a zone of a server.
type zoneFile struct {
	zone    string                            // "example.com"
	records string                            // in master file format, without the SOA record
	prepare func(t *testing.T, master string) // changes the file before it is served; may be nil
}

// software is an authoritative server program.
type software struct {
	program string
	relayed bool     // listens only at interface addresses, hence at 127.0.0.1
	args    []string // before the path of the configuration
	conf    func(s *zoneServer, addr string, port uint16) string
}

var nsdSoftware = software{program: "nsd", args: []string{"-d", "-c"},
	conf: func(s *zoneServer, addr string, port uint16) string {
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
`, addr, port, s.dir, s.in("pid"), s.in("xfrd"), s.dir, s.in("list"), s.in("log"))
		for _, z := range s.zones {
			conf += fmt.Sprintf("zone:\n  name: %s\n  zonefile: %q\n", z.zone, s.master(z))
		}
		return conf
	}}

var knotSoftware = software{program: "knotd", args: []string{"-c"},
	conf: func(s *zoneServer, addr string, port uint16) string {
		conf := fmt.Sprintf(`server:
    listen: %s@%d
    rundir: %q
    background-workers: 1
    udp-workers: 1
    tcp-workers: 1
log:
  - target: %q
    any: info
database:
    storage: %q
template:
  - id: default
    journal-content: none
    zonefile-sync: -1
zone:
`, addr, port, s.dir, s.in("log"), s.dir)
		for _, z := range s.zones {
			conf += fmt.Sprintf("  - domain: %s\n    file: %q\n", z.zone, s.master(z))
		}
		return conf
	}}

var bindSoftware = software{program: "named", relayed: true, args: []string{"-g", "-n", "1", "-c"},
	conf: func(s *zoneServer, addr string, port uint16) string {
		conf := fmt.Sprintf(`options {
	directory %q;
	listen-on port %d { %s; };
	listen-on-v6 { none; };
	pid-file none;
	session-keyfile none;
	lock-file none;
	dnssec-validation no;
	recursion no;
	notify no;
	empty-zones-enable no;
	check-names primary ignore;
};
controls { };
`, s.dir, port, addr)
		for _, z := range s.zones {
			conf += fmt.Sprintf("zone %q { type primary; file %q; };\n", z.zone, s.master(z))
		}
		return conf
	}}

// zoneServer is a running authoritative server.
type zoneServer struct {
	process *os.Process
	dir, at string
	zones   []zoneFile
	serial  uint32
}

func (s *zoneServer) in(name string) string    { return filepath.Join(s.dir, name) }
func (s *zoneServer) master(z zoneFile) string { return s.in("zone-" + z.zone) }
func (z zoneFile) text(serial uint32) string {
	return fmt.Sprintf("$ORIGIN %s.\n$TTL 3600\n@ SOA a.nic root %d 3600 3600 3600 3600\n%s", z.zone, serial, z.records)
}

// serveZones runs a server until the test ends. It returns when the server answers for all of
// its zones.
func serveZones(t *testing.T, by software, port uint16, addr string, zones ...zoneFile) *zoneServer {
	t.Helper()
	daemon(t, by.program)
	s := &zoneServer{dir: t.TempDir(), at: net.JoinHostPort(addr, fmt.Sprint(port)), zones: zones}
	s.write(t)
	if by.relayed {
		addr, port = "127.0.0.1", freePort(t)
		relay(t, s.at, net.JoinHostPort(addr, fmt.Sprint(port)))
	}
	s.process = start53(t, by.program, s.dir, by.conf(s, addr, port), by.args...)
	s.await(t)
	return s
}

// relay forwards queries to another address, and returns the replies.
func relay(t *testing.T, from, to string) {
	t.Helper()
	packets, err := net.ListenPacket("udp", from)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", from)
	if err != nil {
		t.Fatal(err)
	}
	exchange := func(network string, use func(conn net.Conn)) {
		conn, err := net.DialTimeout(network, to, time.Second)
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
		use(conn)
	}
	serveOn(t, packets, listener, func(query []byte, send func([]byte)) {
		exchange("udp", func(conn net.Conn) {
			_, _ = conn.Write(query)
			reply := make([]byte, 65535)
			if n, err := conn.Read(reply); err == nil {
				send(reply[:n])
			}
		})
	}, func(query []byte, client net.Conn) {
		exchange("tcp", func(conn net.Conn) {
			_, _ = conn.Write(frame(query))
			if reply, err := readFrame(conn); err == nil {
				_, _ = client.Write(frame(reply))
			}
		})
	})
}

func (s *zoneServer) write(t *testing.T) {
	t.Helper()
	s.serial++
	for _, z := range s.zones {
		master := s.master(z)
		if err := os.WriteFile(master+".new", []byte(z.text(s.serial)), 0o644); err != nil {
			t.Fatal(err)
		}
		if z.prepare != nil {
			z.prepare(t, master+".new")
		}
		later := time.Now().Add(time.Duration(s.serial) * time.Second) // servers detect a new file by its time
		if err := os.Chtimes(master+".new", later, later); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(master+".new", master); err != nil {
			t.Fatal(err)
		}
	}
}

// publish replaces the records of the server's only zone. It returns when they are served.
func (s *zoneServer) publish(t *testing.T, records string) {
	t.Helper()
	s.zones[0].records = records
	s.write(t)
	if err := s.process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	s.await(t)
}

// await returns when the server serves the zones as written.
func (s *zoneServer) await(t *testing.T) {
	t.Helper()
	times := 1
	if s.serial > 1 {
		times = 10 // a reloading server briefly alternates between old and new answers
	}
	for _, z := range s.zones {
		await(t, s.at, z.zone, dns.TypeSOA, times, func(m *dns.Msg) bool {
			for _, rr := range m.Answer {
				if soa, ok := rr.(*dns.SOA); ok && soa.Serial == s.serial {
					return true
				}
			}
			return false
		})
	}
}

// await returns when the server gives the wanted answer the wanted number of times in a row.
func await(t *testing.T, at, name string, kind uint16, times int, well func(*dns.Msg) bool) {
	t.Helper()
	q := new(dns.Msg)
	q.SetQuestion(dns.Fqdn(name), kind)
	// A query is lost while the server does not listen yet.
	client := &dns.Client{Timeout: 20 * time.Millisecond}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	var last error
	inRow := 0
	for began := time.Now(); time.Since(began) < time.Minute; <-tick.C {
		m, _, err := client.ExchangeContext(t.Context(), q, at)
		if err != nil || !well(m) {
			last, inRow = err, 0
			client.Timeout = min(client.Timeout*5/4, time.Second)
			continue
		}
		if inRow++; inRow == times {
			return
		}
	}
	t.Fatalf("%s does not give %s: %v", at, name, last)
}

// Unbound has two addresses because one resolver proves nothing.
const unboundAddr, unboundToo = "127.0.53.9", "127.0.53.19"

// runUnbound runs a resolver that queries these zones' servers at the port that it listens on.
// The settings are further lines of its server section.
func runUnbound(t *testing.T, port uint16, zones map[string][]string, settings ...string) dnscheck.Resolver {
	t.Helper()
	dir := t.TempDir()
	own := netip.AddrPortFrom(netip.MustParseAddr(unboundAddr), port)
	var conf strings.Builder
	fmt.Fprintf(&conf, `server:
  interface: %s@%d
  interface: %s@%d
  do-not-query-localhost: no
  outgoing-port-avoid: 20000-32000
  do-ip6: no
  username: ""
  chroot: ""
  directory: %q
  pidfile: ""
  use-syslog: no
  num-threads: 1
`, own.Addr(), port, unboundToo, port, dir)
	if len(settings) == 0 {
		settings = []string{`module-config: "iterator"`}
	}
	for _, line := range settings {
		fmt.Fprintf(&conf, "  %s\n", line)
	}
	conf.WriteString("remote-control:\n  control-enable: no\n")
	for zone, addrs := range zones {
		fmt.Fprintf(&conf, "stub-zone:\n  name: %q\n", zone)
		for _, addr := range addrs {
			fmt.Fprintf(&conf, "  stub-addr: %s@%d\n", addr, port)
		}
	}
	start53(t, "unbound", dir, conf.String(), "-d", "-p", "-c")
	await(t, own.String(), "com", dns.TypeNS, 1, func(m *dns.Msg) bool { return len(m.Answer) > 0 })
	return dnscheck.Resolver{Addr: own, Name: "unbound"}
}

// start53 runs a DNS server until the test ends.
func start53(t *testing.T, program, dir, conf string, args ...string) *os.Process {
	t.Helper()
	path := filepath.Join(dir, "conf")
	if err := os.WriteFile(path, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(daemon(t, program), append(append([]string(nil), args...), path)...)
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

// packages maps programs to their Debian packages, if the names differ.
var packages = map[string]string{"knotd": "knot", "named": "bind9", "ldns-keygen": "ldnsutils",
	"ldns-signzone": "ldnsutils"}

// daemon returns the path of a program, or skips the test if it is not installed.
func daemon(t *testing.T, program string) string {
	t.Helper()
	for _, dir := range []string{"/usr/sbin", "/usr/local/sbin", "/usr/bin"} {
		path := filepath.Join(dir, program)
		if info, err := os.Stat(path); err == nil && info.Mode()&0o111 != 0 {
			return path
		}
	}
	of, other := packages[program]
	if !other {
		of = program
	}
	t.Skipf("%s is not installed (apt-get install %s)", program, of)
	return ""
}

// chosenPorts are those that freePort has returned: to try one again would keep its test from
// listening there.
var chosenPorts sync.Map

// freePort returns a port that is free at all addresses, for UDP and TCP. It is below the
// ephemeral range, so that no outgoing connection takes it first. No process is started
// meanwhile: it would have the sockets until its exec, and the port would be in use.
func freePort(t *testing.T) uint16 {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	const from, below = 20_000, 32_000 // which Unbound avoids
	for {
		port := from + rand.IntN(below-from)
		if _, chosen := chosenPorts.LoadOrStore(port, true); chosen {
			continue
		}
		listener, err := net.Listen("tcp", fmt.Sprintf("0.0.0.0:%d", port))
		if err == nil {
			_ = listener.Close()
			var packets net.PacketConn
			if packets, err = net.ListenPacket("udp", fmt.Sprintf("0.0.0.0:%d", port)); err == nil {
				_ = packets.Close()
				return uint16(port)
			}
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			t.Fatal(err)
		}
	}
}
