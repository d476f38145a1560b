package sandbox_test

import (
	"errors"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"

	"orgops/internal/sandbox"
)

// lookUp queries a name and type, over udp or tcp.
func lookUp(t *testing.T, s *sandbox.Sandbox, transport, name string, qtype uint16, change ...func(*dns.Msg)) *dns.Msg {
	t.Helper()
	m := new(dns.Msg).SetQuestion(dns.Fqdn(name), qtype)
	for _, c := range change {
		c(m)
	}
	c := dns.Client{Net: transport, UDPSize: 4096}
	got, _, err := c.Exchange(m, s.DNSAddr())
	if err != nil {
		t.Fatalf("%s %s: %v", transport, name, err)
	}
	return got
}

// formatAnswer formats an answer: the code, then the records of its sections.
func formatAnswer(m *dns.Msg) []string {
	words := []string{dns.RcodeToString[m.Rcode]}
	for _, section := range [][]dns.RR{m.Answer, m.Ns} {
		for _, rr := range section {
			words = append(words, strings.ReplaceAll(rr.String(), "\t", " "))
		}
	}
	return words
}

func TestZone(t *testing.T) {
	s := start(t, sandbox.Options{NegativeTTL: 1500 * time.Millisecond})
	s.SetTXT("_ss-verification.org_AbC.one.example", "token")
	s.SetTXT("two.one.example", "a", "b")
	s.SetTXT("empty.one.example")
	s.SetTXTStrings("split.one.example", []string{"to", "", "ken"})
	s.SetTXT("odd.one.example", `"quoted" \ \065 `+"\x00\xff\n")
	s.SetTXT("long.one.example", strings.Repeat("x", 300))
	s.SetCNAME("alias.one.example", "Two.one.example")
	s.SetCNAME("alias2.one.example", "alias.one.example")
	s.SetCNAME("dangling.one.example", "gone.one.example")
	s.SetCNAME("loop.one.example", "pool.one.example")
	s.SetCNAME("pool.one.example", "loop.one.example")
	s.SetTXT("removed.one.example", "x")
	s.Remove("removed.one.example")
	s.SetTXT("replaced.one.example", "x")
	s.SetTXT("replaced.one.example", "y")
	s.SetTXT("*.wild.one.example", "w")
	s.SetTXT("own.wild.one.example", "o")
	s.SetTXT("x.empty.wild.one.example", "x")
	s.SetCNAME("*.parked.one.example", "own.wild.one.example")
	soa := "one.example. 2 IN SOA ns1.one.example. hostmaster.one.example. 1 3600 600 86400 2"
	tests := []struct {
		name  string
		qtype uint16
		want  []string
	}{
		{"_ss-verification.org_AbC.one.example", dns.TypeTXT,
			[]string{"NOERROR", `_ss-verification.org_AbC.one.example. 2 IN TXT "token"`}},
		{"_SS-verification.ORG_abc.one.EXAMPLE", dns.TypeTXT,
			[]string{"NOERROR", `_SS-verification.ORG_abc.one.EXAMPLE. 2 IN TXT "token"`}},
		{"two.one.example", dns.TypeTXT, []string{"NOERROR", `two.one.example. 2 IN TXT "a"`,
			`two.one.example. 2 IN TXT "b"`}},
		{"two.one.example", dns.TypeANY, []string{"NOERROR", `two.one.example. 2 IN TXT "a"`,
			`two.one.example. 2 IN TXT "b"`}},
		{"two.one.example", dns.TypeA, []string{"NOERROR", soa}},
		{"empty.one.example", dns.TypeTXT, []string{"NOERROR", soa}},
		{"one.example", dns.TypeTXT, []string{"NOERROR", soa}},            // it has names below it
		{"org_abc.one.example", dns.TypeTXT, []string{"NOERROR", soa}},    // so has this
		{"nothing.one.example", dns.TypeTXT, []string{"NXDOMAIN", soa}},   //
		{"below.two.one.example", dns.TypeTXT, []string{"NXDOMAIN", soa}}, //
		{"removed.one.example", dns.TypeTXT, []string{"NXDOMAIN", soa}},   //
		{"_ss-verification.one.example", dns.TypeTXT, []string{"NXDOMAIN", soa}},
		{"replaced.one.example", dns.TypeTXT, []string{"NOERROR", `replaced.one.example. 2 IN TXT "y"`}},
		{"split.one.example", dns.TypeTXT, []string{"NOERROR", `split.one.example. 2 IN TXT "to" "" "ken"`}},
		{"odd.one.example", dns.TypeTXT, []string{"NOERROR", `odd.one.example. 2 IN TXT "\"quoted\" \\ \\065 \000\255\010"`}},
		{
			"long.one.example", dns.TypeTXT,
			[]string{
				"NOERROR", `long.one.example. 2 IN TXT "` + strings.Repeat("x", 255) + `" "` + strings.Repeat("x", 45) + `"`,
			},
		},
		{"alias.one.example", dns.TypeTXT, []string{"NOERROR", `alias.one.example. 2 IN CNAME Two.one.example.`,
			`Two.one.example. 2 IN TXT "a"`, `Two.one.example. 2 IN TXT "b"`}},
		{"alias.one.example", dns.TypeCNAME, []string{"NOERROR", `alias.one.example. 2 IN CNAME Two.one.example.`}},
		{"alias2.one.example", dns.TypeA, []string{"NOERROR", `alias2.one.example. 2 IN CNAME alias.one.example.`,
			`alias.one.example. 2 IN CNAME Two.one.example.`, soa}},
		{
			"dangling.one.example", dns.TypeTXT, []string{"NXDOMAIN", `dangling.one.example. 2 IN CNAME gone.one.example.`, soa},
		},
		{"loop.one.example", dns.TypeTXT, []string{"SERVFAIL"}},
		{"any.wild.one.example", dns.TypeTXT, []string{"NOERROR", `any.wild.one.example. 2 IN TXT "w"`}},
		{"any.any.wild.one.example", dns.TypeTXT, []string{"NOERROR", `any.any.wild.one.example. 2 IN TXT "w"`}},
		{"any.wild.one.example", dns.TypeA, []string{"NOERROR", soa}},
		{"own.wild.one.example", dns.TypeTXT, []string{"NOERROR", `own.wild.one.example. 2 IN TXT "o"`}},
		// an existing name hides the wildcard from names below it
		{"any.own.wild.one.example", dns.TypeTXT, []string{"NXDOMAIN", soa}},
		{"empty.wild.one.example", dns.TypeTXT, []string{"NOERROR", soa}},      //
		{"any.empty.wild.one.example", dns.TypeTXT, []string{"NXDOMAIN", soa}}, //
		{
			"any.parked.one.example", dns.TypeTXT,
			[]string{"NOERROR", `any.parked.one.example. 2 IN CNAME own.wild.one.example.`,
				`own.wild.one.example. 2 IN TXT "o"`},
		},
		{
			"elsewhere", dns.TypeTXT, []string{
				"NXDOMAIN", "elsewhere. 2 IN SOA ns1.elsewhere. hostmaster.elsewhere. 1 3600 600 86400 2",
			},
		},
		{".", dns.TypeTXT, []string{"NOERROR", ". 2 IN SOA ns1. hostmaster. 1 3600 600 86400 2"}},
	}
	for _, transport := range []string{"udp", "tcp"} {
		for _, tt := range tests {
			t.Run(transport+"/"+tt.name+"/"+dns.TypeToString[tt.qtype], func(t *testing.T) {
				got := lookUp(t, s, transport, tt.name, tt.qtype)
				if diff := cmp.Diff(tt.want, formatAnswer(got)); diff != "" {
					t.Errorf("-want +got:\n%s", diff)
				}
				if !got.RecursionAvailable || got.Authoritative || got.AuthenticatedData ||
					got.Question[0].Name != dns.Fqdn(tt.name) {
					t.Errorf("header %+v", got.MsgHdr)
				}
			})
		}
	}
}

func TestNamesBelowGoAwayWithTheLast(t *testing.T) {
	s := start(t, sandbox.Options{})
	code := func() string { return formatAnswer(lookUp(t, s, "udp", "b.example", dns.TypeTXT))[0] }
	s.SetTXT("x.a.b.example", "1")
	s.SetTXT("y.b.example", "1")
	s.SetTXT("y.b.example", "2")
	s.Remove("x.a.b.example")
	if got := code(); got != "NOERROR" {
		t.Error("with one name left:", got)
	}
	s.Remove("y.b.example")
	if got := code(); got != "NXDOMAIN" {
		t.Error("with none left:", got)
	}
	s.SetRCode("z.b.example", dns.RcodeRefused, 1)
	if got := code(); got != "NXDOMAIN" {
		t.Error("a fault is no record:", got)
	}
}

func TestLateRecords(t *testing.T) {
	now := newClock()
	s := start(t, sandbox.Options{Clock: now.Now})
	s.SetTXTAt("new.example", 3*time.Second, "token")
	s.SetTXT("old.example", "before")
	s.SetTXTAt("old.example", 3*time.Second, "after")
	s.SetTXT("gone.example", "before")
	s.SetTXTAt("gone.example", 3*time.Second)
	s.SetTXTAt("never.example", 3*time.Second, "token")
	s.SetTXT("never.example", "instead")
	all := func() map[string]string {
		said := map[string]string{}
		for _, name := range []string{"new", "old", "gone", "never"} {
			words := formatAnswer(lookUp(t, s, "udp", name+".example", dns.TypeTXT))
			said[name] = words[0]
			if _, value, ok := strings.Cut(words[1], ` TXT `); ok {
				said[name] = value
			}
		}
		return said
	}
	now.Add(3*time.Second - 1)
	if diff := cmp.Diff(map[string]string{"new": "NXDOMAIN", "old": `"before"`, "gone": `"before"`, "never": `"instead"`},
		all()); diff != "" {
		t.Errorf("before: %s", diff)
	}
	now.Add(1)
	if diff := cmp.Diff(map[string]string{"new": `"token"`, "old": `"after"`, "gone": "NOERROR", "never": `"instead"`},
		all()); diff != "" {
		t.Errorf("then: %s", diff)
	}
}

func TestRCodes(t *testing.T) {
	s := start(t, sandbox.Options{})
	s.SetTXT("a.example", "x")
	s.SetRCode("A.example", dns.RcodeServerFailure, 2)
	s.SetRCode("b.example", dns.RcodeRefused, -1)
	var got []string
	for _, name := range []string{"a", "a", "a", "b", "b", "b"} {
		got = append(got, formatAnswer(lookUp(t, s, "udp", name+".example", dns.TypeTXT))[0])
	}
	s.SetRCode("b.example", 0, 0)
	got = append(got, formatAnswer(lookUp(t, s, "udp", "b.example", dns.TypeTXT))[0])
	want := []string{"SERVFAIL", "SERVFAIL", "NOERROR", "REFUSED", "REFUSED", "REFUSED", "NXDOMAIN"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestUnresponsive(t *testing.T) {
	s := start(t, sandbox.Options{})
	s.SetTXT("a.example", "x")
	s.Unresponsive("a.example", true)
	for _, transport := range []string{"udp", "tcp"} {
		conn, err := dns.Dial(transport, s.DNSAddr())
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.WriteMsg(new(dns.Msg).SetQuestion("a.example.", dns.TypeTXT)); err != nil {
			t.Fatal(err)
		}
		// The log shows that the query arrived, so that the silence is intended.
		for !asked(s, transport) {
			if t.Context().Err() != nil {
				t.Fatal("question never arrived")
			}
		}
		if err := conn.SetReadDeadline(time.Now().Add(20 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		if m, err := conn.ReadMsg(); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: %v, %v", transport, m, err)
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	}
	s.Unresponsive("a.example", false)
	if got := formatAnswer(lookUp(t, s, "udp", "a.example", dns.TypeTXT)); got[0] != "NOERROR" {
		t.Error(got)
	}
}

func asked(s *sandbox.Sandbox, transport string) bool {
	for _, q := range s.Queries() {
		if q.Transport == transport {
			return true
		}
	}
	return false
}

// wire returns the size of a message in bytes on the wire.
func wire(m *dns.Msg) int {
	m.Compress = true
	return m.Len()
}

func TestTruncation(t *testing.T) {
	s := start(t, sandbox.Options{})
	values := make([]string, 30)
	for i := range values {
		values[i] = strings.Repeat("x", 100)
	}
	s.SetTXT("big.example", values...)
	edns := func(size uint16) func(*dns.Msg) { return func(m *dns.Msg) { m.SetEdns0(size, false) } }
	plain := lookUp(t, s, "udp", "big.example", dns.TypeTXT)
	if !plain.Truncated || wire(plain) > 512 || len(plain.Answer) >= 30 || plain.IsEdns0() != nil {
		t.Errorf("plain: TC %v, %d bytes, %d records", plain.Truncated, wire(plain), len(plain.Answer))
	}
	medium := lookUp(t, s, "udp", "big.example", dns.TypeTXT, edns(1232))
	if !medium.Truncated || wire(medium) > 1232 || len(medium.Answer) <= len(plain.Answer) || medium.IsEdns0() == nil {
		t.Errorf("1232: TC %v, %d bytes, %d records", medium.Truncated, wire(medium), len(medium.Answer))
	}
	for name, m := range map[string]*dns.Msg{
		"4096": lookUp(t, s, "udp", "big.example", dns.TypeTXT, edns(4096)),
		"tcp":  lookUp(t, s, "tcp", "big.example", dns.TypeTXT),
	} {
		if m.Truncated || len(m.Answer) != 30 {
			t.Errorf("%s: TC %v, %d records", name, m.Truncated, len(m.Answer))
		}
	}
}

func TestOddQuestions(t *testing.T) {
	s := start(t, sandbox.Options{})
	s.SetTXT("a.example", "x")
	tests := []struct {
		name   string
		change func(*dns.Msg)
		want   int
	}{
		{"class CH", func(m *dns.Msg) { m.Question[0].Qclass = dns.ClassCHAOS }, dns.RcodeRefused},
		{"EDNS 1", func(m *dns.Msg) { m.SetEdns0(1232, false); m.IsEdns0().SetVersion(1) }, dns.RcodeBadVers},
		{"two questions", func(m *dns.Msg) { m.Question = append(m.Question, m.Question[0]) }, dns.RcodeFormatError},
		{"notify", func(m *dns.Msg) { m.Opcode = dns.OpcodeNotify }, dns.RcodeNotImplemented},
		{"update", func(m *dns.Msg) { m.Opcode = dns.OpcodeUpdate }, dns.RcodeNotImplemented},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := lookUp(t, s, "udp", "a.example", dns.TypeTXT, tt.change); got.Rcode != tt.want || len(got.Answer) != 0 {
				t.Errorf("got %s", got)
			}
		})
	}
}

func TestQueryLog(t *testing.T) {
	now := newClock()
	s := start(t, sandbox.Options{Clock: now.Now})
	s.SetTXT("a.example", "x")
	lookUp(t, s, "udp", "A.example", dns.TypeTXT)
	lookUp(t, s, "tcp", "b.example", dns.TypeAAAA)
	want := []sandbox.Query{
		{Seq: 1, At: now.Now(), Name: "A.example.", Type: "TXT", Transport: "udp", RCode: "NOERROR"},
		{Seq: 2, At: now.Now(), Name: "b.example.", Type: "AAAA", Transport: "tcp", RCode: "NXDOMAIN"},
	}
	if diff := cmp.Diff(want, s.Queries()); diff != "" {
		t.Error(diff)
	}
}

func TestOnePortForBoth(t *testing.T) {
	s := start(t, sandbox.Options{})
	if _, port, err := net.SplitHostPort(s.DNSAddr()); err != nil || port == "0" {
		t.Error(s.DNSAddr(), err)
	}
	lookUp(t, s, "udp", "a.example", dns.TypeTXT)
	lookUp(t, s, "tcp", "a.example", dns.TypeTXT)
}
