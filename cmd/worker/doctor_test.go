package main

import (
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"

	"orgops/internal/health"
	"orgops/internal/redistest"
	"orgops/internal/sandbox"
)

// everything starts a resolver that answers every query.
func everything(t *testing.T) string {
	t.Helper()
	packets, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &dns.Server{PacketConn: packets, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		m := new(dns.Msg).SetReply(q)
		asked := q.Question[0]
		switch asked.Qtype {
		case dns.TypeTXT:
			m.Answer = append(m.Answer, &dns.TXT{Hdr: dns.RR_Header{Name: asked.Name, Rrtype: asked.Qtype, Class: dns.ClassINET},
				Txt: []string{"yes"}})
		case dns.TypeA:
			m.Answer = append(m.Answer, &dns.A{Hdr: dns.RR_Header{Name: asked.Name, Rrtype: asked.Qtype, Class: dns.ClassINET},
				A: net.IPv4(192, 0, 2, 1)})
		}
		_ = w.WriteMsg(m)
	})}
	go func() { _ = server.ActivateAndServe() }()
	t.Cleanup(func() { _ = server.Shutdown() })
	return packets.LocalAddr().String()
}

// expected are the warnings about the sandbox's resolvers.
var expected = []string{"does not validate DNSSEC", "are queried from this network alone"}

func TestDoctor(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(t *testing.T, env map[string]string, box *sandbox.Sandbox)
		redis  []string
		status int
		want   []string // of each unexpected line that is not ok
	}{
		{"nothing", nil, nil, 0, nil},
		{"a wrong secret", func(_ *testing.T, env map[string]string, _ *sandbox.Sandbox) {
			env["ORGOPS_CLIENT_SECRET"] = "not-the-secret"
		}, nil, 1, []string{"wrong    tenant default: no token: POST … -> check client"}},
		{"another burst", func(_ *testing.T, env map[string]string, _ *sandbox.Sandbox) { env["ORGOPS_BURST"] = "10" },
			nil, 0, nil},
		{"a policy that evicts", nil, []string{"--maxmemory-policy", "volatile-lru"}, 1,
			[]string{"wrong    redis: maxmemory-policy volatile-lru"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, append([]string{"--appendonly", "yes"}, tc.redis...)...)
			box := startBox(t, sandbox.Options{Rate: 50, Burst: 50})
			env := pointedAt(box, server.URL(), map[string]string{"ORGOPS_RATE": "50/s", "ORGOPS_BURST": "50"})
			if tc.change != nil {
				tc.change(t, env, box)
			}
			p := begin(t, env, "doctor")
			if status := p.wait(); status != tc.status {
				t.Errorf("status %d, want %d; stdout:\n%s", status, tc.status, &p.stdout)
			}
			var got []string
			for line := range strings.Lines(p.stdout.String()) {
				if !strings.HasPrefix(line, "ok ") && !slices.ContainsFunc(expected,
					func(e string) bool { return strings.Contains(line, e) }) {
					got = append(got, line)
				}
			}
			if len(got) != len(tc.want) {
				t.Fatalf("told %q, want %q", got, tc.want)
			}
			for i, want := range tc.want {
				begin, fix, _ := strings.Cut(want, "…")
				if !strings.HasPrefix(got[i], begin) || !strings.Contains(got[i], fix) {
					t.Errorf("told %q, want %q", got[i], want)
				}
			}
			if all := p.stdout.String() + p.stderr.String(); strings.Contains(all, env["ORGOPS_CLIENT_SECRET"]) {
				t.Error("the secret is told")
			}
			if n := server.Client().Exists(t.Context(), "orgops:schema").Val(); n != 0 {
				t.Error("a Redis that may be somebody else's is marked as orgops's")
			}
			if requests := len(box.Requests()); requests > 2 {
				t.Errorf("%d requests to the API, want one, and one for the token at the most", requests)
			}
		})
	}
}

// TestDoctorSaysTheWorstLast checks the order of the lines, and that equal findings of several
// tenants are one line.
func TestDoctorSaysTheWorstLast(t *testing.T) {
	found := []health.Finding{
		{Level: health.Wrong, Subject: "redis", Text: "it persists nothing"},
		{Level: health.OK, Subject: "tenant a", Text: "there is a token"},
		{Level: health.Warning, Subject: "tenant a", Text: "one site", Fix: "name more"},
		{Level: health.OK, Subject: "tenant b", Text: "there is a token"},
		{Level: health.Warning, Subject: "tenant b", Text: "one site", Fix: "name others"},
		{Level: health.OK, Subject: "machine", Text: "2 CPUs"},
	}
	var out strings.Builder
	if err := (doctorCommand{}).write(&out, found); !errors.Is(err, errFoundWrong) {
		t.Errorf("got %v, want %v", err, errFoundWrong)
	}
	want := `ok       tenant a, tenant b: there is a token
ok       machine: 2 CPUs
warning  tenant a: one site -> name more
warning  tenant b: one site -> name others
wrong    redis: it persists nothing
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestDoctorInJSON(t *testing.T) {
	server, box := redistest.Start(t, "--appendonly", "yes"), startBox(t, sandbox.Options{})
	p := begin(t, pointedAt(box, server.URL(), nil), "doctor", "--json")
	if status := p.wait(); status != 0 {
		t.Errorf("status %d", status)
	}
	var first map[string]string
	line, _, _ := strings.Cut(p.stdout.String(), "\n")
	if err := json.Unmarshal([]byte(line), &first); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"level": "ok", "subject": "redis", "text": "it answers at " + server.URL()},
		first); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestDoctorWantsSettings(t *testing.T) {
	for name, args := range map[string][]string{"no tenant": nil, "a sandbox": {"--sandbox"}} {
		p := begin(t, map[string]string{}, append([]string{"doctor"}, args...)...)
		if status := p.wait(); status != 2 || p.stdout.String() != "" {
			t.Errorf("%s: status %d, want 2; stdout %s", name, status, &p.stdout)
		}
	}
}

// TestDoctorNamesTheProxy checks that doctor names a proxy that refuses, without its password, and
// the variable to correct.
func TestDoctorNamesTheProxy(t *testing.T) {
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusProxyAuthRequired)
	}))
	t.Cleanup(proxy.Close)
	at := proxy.Listener.Addr().String()
	closed := closed(t)
	for address, want := range map[string]string{
		at:     "the proxy " + at + " refused to connect: 407 Proxy Authentication Required -> check HTTPS_PROXY",
		closed: "proxyconnect tcp: dial tcp " + closed + ": connect: connection refused -> check HTTPS_PROXY",
	} {
		p := begin(t, pointedAt(startBox(t, sandbox.Options{}), redistest.URL(t), map[string]string{
			"ORGOPS_BASE_URL": "https://tenant.example/api/v2", "ORGOPS_AUTH_URL": "", "ORGOPS_TOKEN_URL": "",
			"HTTPS_PROXY": "http://user:not-shown@" + address,
		}), "doctor")
		if status := p.wait(); status != 1 || !strings.Contains(p.stdout.String(), want) {
			t.Errorf("status %d, want 1 and %q:\n%s%s", status, want, &p.stdout, &p.stderr)
		}
		if strings.Contains(p.stdout.String()+p.stderr.String(), "not-shown") {
			t.Error("the password is shown")
		}
	}
}
