package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"

	"orgops/internal/ledger"
	"orgops/internal/redistest"
	"orgops/internal/sandbox"
	"orgops/internal/status"
	"orgops/tasks"
)

// insideVar is set when a test runs itself in a network namespace in which every address is local.
const insideVar = "ORGOPS_TEST_INSIDE"

// TestNameServersEndToEnd runs a built worker with name servers and resolvers at public addresses,
// in a network namespace of its own. All resolvers have the token in each case: they asked the one
// hostile name server.
func TestNameServersEndToEnd(t *testing.T) {
	redistest.NeedsLong(t, "builds the commands, and waits for silent name servers")
	if os.Getenv(insideVar) == "" {
		runInside(t)
		return
	}
	for _, tc := range []struct {
		name     string
		world    nameServers
		verified bool
		waits    string // the reason of the row
		reason   string // of its evidence
		ready    string // a part of /readyz
		log      string // a line
	}{
		{name: "all four name servers have the token", world: nameServers{hostile: 4}, verified: true},
		{
			name: "one of four is hostile, and three deny later", world: nameServers{hostile: 1},
			waits: "disagree about the TXT record", reason: "name_servers_disagree",
		},
		{
			name: "the registry is silent", world: nameServers{hostile: 1, silentRegistry: true},
			waits: "could not be checked", reason: "timeout",
		},
		{
			name: "port 53 is closed", world: nameServers{none: true},
			waits: "port 53 is closed", reason: "port_53_closed",
			ready: "network: ok, but port 53 is closed", log: "domains' own name servers cannot be reached",
		},
		{
			name: "port 53 is redirected", world: nameServers{redirected: true},
			waits: "port 53 is redirected", reason: "port_53_redirected",
			ready: "network: ok, but port 53 is redirected", log: "domains' own name servers cannot be reached",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			box := startBox(t, sandbox.Options{})
			f := newFleet(newDesk(t), box, redistest.URL(t), map[string]string{
				"ORGOPS_DNS_MODE": "authority", "ORGOPS_RESOLVERS": strings.Join(tc.world.resolvers(), ",")})
			d := box.AddDomain("org_1", sandbox.Domain{Domain: "acme.example"})
			tc.world.host, tc.world.token = dns.Fqdn(d.Host), d.TXT
			tc.world.start(t)
			f.work("one")
			f.handIn(ledger.NewRun{ID: "job"}, tasks.TypeVerify, []byte("organization_id,discovery_domain_id\norg_1,"+d.ID+"\n"))
			if tc.verified {
				f.finished("job")
			} else {
				f.openFor("job", 1, tc.waits, d.Host)
			}
			patched := 0
			for _, r := range box.Requests() {
				if r.Method == http.MethodPatch {
					patched++
				}
			}
			audited := 0
			for _, line := range f.log("one") {
				if line["msg"] == "audit" && line["event"] == "domain verified" {
					audited++
				}
			}
			now, _ := box.Domain("org_1", d.ID)
			want := map[bool]int{true: 1}[tc.verified]
			if patched != want || audited != want || (now.Status == "verified") != tc.verified {
				t.Errorf("%d PATCHes, %d audit lines, status %s; want %d of both", patched, audited, now.Status, want)
			}
			known, err := status.DomainOf(t.Context(), f.redis, f.ledger,
				status.DomainName{Tenant: tasks.DefaultTenant, Organization: "org_1", ID: d.ID}, 1)
			if err != nil || len(known.Rows) != 1 || known.Rows[0].Evidence == nil {
				t.Fatalf("%d rows, %v", len(known.Rows), err)
			}
			e := known.Rows[0].Evidence
			if !tc.verified && (e.State != "unknown" || e.Reason != tc.reason) {
				t.Errorf("evidence %s, %s; want unknown, %s", e.State, e.Reason, tc.reason)
			}
			if tc.verified && e.Basis != "authority_and_resolvers" {
				t.Errorf("basis %s", e.Basis)
			}
			f.wantNetwork("one", tc.ready, tc.log)
		})
	}
}

// wantNetwork compares what a worker says of the way to name servers; "": nothing is wrong.
func (f *fleet) wantNetwork(name, ready, log string) {
	f.t.Helper()
	probes, told := "", false
	for _, line := range f.log(name) {
		if line["msg"] == "listening" && line["for"] == "probe-addr" {
			probes, _ = line["url"].(string)
		}
		told = told || line["msg"] == "domains' own name servers cannot be reached"
	}
	code, body := fetch(f.t, http.MethodGet, probes+"readyz", "")
	if code != http.StatusOK || !strings.Contains(body, ready) || (ready == "") == strings.Contains(body, "network: ") {
		f.t.Errorf("readyz: %d %s, want 200 with %q", code, body, ready)
	}
	if told != (log != "") {
		f.t.Errorf("the log says that name servers cannot be reached: %t", told)
	}
}

// nameServers are those of the root, com, org and example, of acme.example, and resolvers.
type nameServers struct {
	host, token    string
	hostile        int  // servers of acme.example that have the token; the others deny it later
	silentRegistry bool // the servers of example never answer
	none           bool // nothing listens at any name server's address
	redirected     bool // a resolver answers in the place of each
}

// denyAfter is later than a check waits for others once a majority has answered, and earlier than
// a name server is taken to be silent.
const denyAfter = 700 * time.Millisecond

var (
	topServers = map[string]string{".": "5.0.0.1", "com.": "5.0.1.1", "org.": "5.0.2.1"}
	registries = []string{"5.0.3.1", "5.0.3.2"}
	ownServers = []string{"5.0.4.1", "5.0.4.2", "5.0.4.3", "5.0.4.4"}
)

func (*nameServers) resolvers() []string { return []string{"10.0.0.1", "10.0.1.1", "10.0.2.1"} }

// start serves all of them until the test ends.
func (w *nameServers) start(t *testing.T) {
	for _, addr := range w.resolvers() {
		serveDNS(t, addr, w.resolve)
	}
	if w.none {
		return
	}
	at := func(addr string, own dns.HandlerFunc) {
		if w.redirected {
			own = w.resolve
		}
		serveDNS(t, addr, own)
	}
	for zone, addr := range topServers {
		at(addr, func(r dns.ResponseWriter, q *dns.Msg) { answerDNS(r, q, true, startOf(zone)) })
	}
	for _, addr := range registries {
		at(addr, w.refer)
	}
	for i, addr := range ownServers {
		at(addr, func(r dns.ResponseWriter, q *dns.Msg) {
			if i < w.hostile {
				w.own(r, q, true)
				return
			}
			time.Sleep(denyAfter)
			w.own(r, q, false)
		})
	}
}

// resolve answers as a resolver: it has the token, and the servers of the top-level domains.
func (w *nameServers) resolve(r dns.ResponseWriter, q *dns.Msg) {
	name := strings.ToLower(q.Question[0].Name)
	records := []dns.RR{record(w.host, "TXT", w.token)}
	for zone, addr := range topServers {
		server := "ns.top-" + strings.TrimSuffix(zone, ".") + ".test."
		records = append(records, startOf(zone), record(zone, "NS", server), record(server, "A", addr))
	}
	for i, addr := range registries {
		server := fmt.Sprintf("ns%d.nic.test.", i)
		records = append(records, record("example.", "NS", server), record(server, "A", addr))
	}
	var found []dns.RR
	for _, one := range records {
		if one.Header().Name == name && one.Header().Rrtype == q.Question[0].Qtype {
			found = append(found, one)
		}
	}
	answerDNS(r, q, false, found...)
}

// refer answers as a server of the registry.
func (w *nameServers) refer(r dns.ResponseWriter, q *dns.Msg) {
	if w.silentRegistry {
		return
	}
	m := new(dns.Msg).SetReply(q)
	for i, addr := range ownServers {
		server := fmt.Sprintf("ns%d.acme.example.", i)
		m.Ns = append(m.Ns, record("acme.example.", "NS", server))
		m.Extra = append(m.Extra, record(server, "A", addr))
	}
	_ = r.WriteMsg(m)
}

// own answers as a server of acme.example.
func (w *nameServers) own(r dns.ResponseWriter, q *dns.Msg, has bool) {
	if asked := q.Question[0]; has && strings.EqualFold(asked.Name, w.host) && asked.Qtype == dns.TypeTXT {
		answerDNS(r, q, true, record(w.host, "TXT", w.token))
		return
	}
	m := new(dns.Msg).SetRcode(q, dns.RcodeNameError)
	m.Authoritative = true
	m.Ns = []dns.RR{startOf("acme.example.")}
	_ = r.WriteMsg(m)
}

// answerDNS sends an answer of a name server, or of a resolver.
func answerDNS(r dns.ResponseWriter, q *dns.Msg, server bool, records ...dns.RR) {
	m := new(dns.Msg).SetReply(q)
	m.Authoritative, m.RecursionAvailable = server, !server
	m.Answer = records
	_ = r.WriteMsg(m)
}

func startOf(zone string) dns.RR {
	return record(zone, "SOA", "ns.test. hostmaster.test. 1 3600 600 86400 1")
}

func record(name, kind, data string) dns.RR {
	one, err := dns.NewRR(fmt.Sprintf("%s 60 IN %s %s", name, kind, data))
	if err != nil {
		panic(err)
	}
	return one
}

// serveDNS serves port 53 of an address, over UDP and TCP, until the test ends.
func serveDNS(t *testing.T, addr string, handler dns.HandlerFunc) {
	t.Helper()
	at := net.JoinHostPort(addr, "53")
	packets, err := net.ListenPacket("udp", at)
	if err != nil {
		t.Fatal(err)
	}
	streams, err := net.Listen("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	for _, server := range []*dns.Server{{PacketConn: packets, Handler: handler}, {Listener: streams, Handler: handler}} {
		started := make(chan struct{})
		ended := make(chan struct{})
		server.NotifyStartedFunc = func() { close(started) }
		go func() {
			defer close(ended)
			_ = server.ActivateAndServe()
		}()
		<-started
		t.Cleanup(func() {
			_ = server.Shutdown()
			<-ended
		})
	}
}

// runInside runs the test again in a network namespace in which every address is local. Without
// root or iproute2 it is skipped.
func runInside(t *testing.T) {
	ip, err := exec.LookPath("ip")
	if err != nil {
		t.Skip("ip is not installed (apt-get install iproute2)")
	}
	inside := fmt.Sprintf("%[1]s link set lo up && %[1]s route add local default dev lo && exec %[2]s -test.run='^%[3]s$' -test.v",
		ip, os.Args[0], t.Name())
	cmd := exec.CommandContext(t.Context(), "sh", "-c", inside)
	cmd.Env = append(os.Environ(), insideVar+"=yes", redistest.EnvURL+"=")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	said, err := cmd.CombinedOutput()
	if _, ran := errors.AsType[*exec.ExitError](err); err != nil && !ran {
		t.Skipf("no network namespace can be made here: %v", err)
	}
	t.Logf("\n%s", said)
	if err != nil {
		t.Error(err)
	}
}
