package dnscheck_test

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"orgops/dnscheck"
	"orgops/dnscheck/dnsname"
)

// FuzzReadReply checks that no input panics, that the codec accepts each accepted reply with
// the same number of records, and that Present needs a record with the token.
func FuzzReadReply(f *testing.F) {
	query, err := dnscheck.PackQuery(host)
	if err != nil {
		f.Fatal(err)
	}
	for _, z := range []zone{
		yes, noValue, noRecord, noName, servfail, refused, bogus, records([]string{token[:3], token[3:]}),
		chainOf(3, func(q *dns.Msg, at string) *dns.Msg { return answer(q, txt(at, token)) }, false),
	} {
		f.Add(z.packed(query))
	}
	for _, d := range damages() {
		f.Add(d.make(yes.packed(query)))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var id uint16
		if len(raw) >= 2 {
			id = binary.BigEndian.Uint16(raw) // otherwise hardly any input passes the check of the id
		}
		sections, state, reason, values, err := dnscheck.ReadReply(raw, id, host, token)
		if err != nil || reason == "" {
			if state != dnscheck.Unknown {
				t.Fatalf("state %s without an answer", state)
			}
			return
		}
		m := new(dns.Msg)
		if err := m.Unpack(raw); err != nil {
			t.Fatalf("the codec refuses what was taken: %v", err)
		}
		if got := [3]int{len(m.Answer), len(m.Ns), len(m.Extra)}; got != sections {
			t.Fatalf("sections of %v records, the codec has %v", sections, got)
		}
		if (state == dnscheck.Present) != (reason == dnscheck.ReasonFound) ||
			state == dnscheck.Present != slices.Contains(values, token) {
			t.Fatalf("state %s (%s) with values %q", state, reason, values)
		}
		if state == dnscheck.Present && !slices.ContainsFunc(m.Answer, func(rr dns.RR) bool {
			record, ok := rr.(*dns.TXT)
			return ok && strings.Join(record.Txt, "") == token // the token needs no escapes
		}) {
			t.Fatal("present, and the codec has no such record")
		}
	})
}

// FuzzUnescape checks that Unescape reverts the escaping of the codec, and never panics.
func FuzzUnescape(f *testing.F) {
	for _, s := range []string{"", token, `\`, `\\034`, `"`, "\x00\xff", "Grüße", `\25`, `\999`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if got := dnscheck.Unescape(s); len(got) > len(s) {
			t.Fatalf("%q became longer: %q", s, got)
		}
		packed := s[:min(len(s), 255)]
		wire, err := zoneReply(packed)
		if err != nil {
			t.Fatal(err)
		}
		m := new(dns.Msg)
		if err := m.Unpack(wire); err != nil {
			t.Fatal(err)
		}
		if got := dnscheck.Unescape(m.Answer[0].(*dns.TXT).Txt[0]); got != packed {
			t.Fatalf("%q came back as %q", packed, got)
		}
	})
}

// zoneReply returns a message with one TXT record of one string, without the codec's escaping.
func zoneReply(packed string) ([]byte, error) {
	wire, err := (&dns.Msg{Answer: []dns.RR{txt(host, "")}}).Pack()
	if err != nil {
		return nil, err
	}
	wire = wire[:len(wire)-3] // RDLENGTH, and the length of the empty string
	wire = binary.BigEndian.AppendUint16(wire, uint16(len(packed)+1))
	return append(append(wire, byte(len(packed))), packed...), nil
}

// FuzzCheckHost checks that an accepted host can be queried, and that sentences and errors are
// printable ASCII.
func FuzzCheckHost(f *testing.F) {
	for _, s := range []string{host, "", ".", "a..b", "192.0.2.1", "bücher.example", "a b.c", "x.local",
		strings.Repeat("a.", 126) + "b", "\x1b"} {
		f.Add(s, "example.com")
	}
	f.Fuzz(func(t *testing.T, name, domain string) {
		err := dnsname.CheckHost(name)
		shown := dnscheck.Verdict{Host: name, Reason: dnscheck.ReasonTimeout}.Sentence()
		if err != nil {
			if !asQuestionError(err) {
				t.Fatalf("error %v, want a QuestionError", err)
			}
			shown += err.Error()
		} else {
			if _, ok := dns.IsDomainName(name); !ok {
				t.Fatalf("%q is no name for the codec", name)
			}
			if _, err := dnscheck.PackQuery(name); err != nil {
				t.Fatalf("%q cannot be asked for: %v", name, err)
			}
			if !strings.Contains(shown, name) {
				t.Fatalf("%q is not shown as it was given: %q", name, shown)
			}
		}
		for _, r := range strings.ReplaceAll(shown, "…", "") {
			if r < ' ' || r > '~' {
				t.Fatalf("%q is shown as %q", name, shown)
			}
		}
		// An xn-- label is longer than its Unicode form.
		if dnsname.Within(name, domain) && isASCII(name+domain) && len(name) <= len(strings.TrimSuffix(domain, ".")) {
			t.Fatalf("%q within %q", name, domain)
		}
	})
}

// FuzzCheckDomain checks that an accepted domain has a stable ASCII form, and that errors are
// printable ASCII.
func FuzzCheckDomain(f *testing.F) {
	for _, s := range []string{"example.com", "Bücher.example", "xn--bcher-kva.example", "co.uk", "foo.ck", "192.0.2.1",
		"例え.テスト", "a。b", "faß.de", "\u200d.x", "א1.example", "_x.y.z", "x.invalid", strings.Repeat("ü", 60) + ".de"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, domain string) {
		ascii, err := dnsname.CheckDomain(domain)
		if err != nil {
			if ascii != "" {
				t.Fatalf("%q, error %v", ascii, err)
			}
			for _, r := range strings.ReplaceAll(err.Error(), "…", "") {
				if r < ' ' || r > '~' {
					t.Fatalf("%q is refused with %q", domain, err)
				}
			}
			return
		}
		if again, err := dnsname.CheckDomain(ascii); again != ascii || err != nil {
			t.Fatalf("%q became %q, which became %q, %v", domain, ascii, again, err)
		}
		if err := dnsname.CheckHost(ascii); err != nil {
			t.Fatalf("%q became %q: %v", domain, ascii, err)
		}
		if !dnsname.Within("_x."+ascii, ascii) || dnsname.Within(ascii, ascii) {
			t.Fatalf("%q is not above _x.%s", ascii, ascii)
		}
	})
}

func isASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r >= 0x80 })
}

// FuzzReadStatement checks replies of a server of example.com.: no input panics, a referral
// leads down toward the host, glue belongs to the referred zone, and results need authority.
func FuzzReadStatement(f *testing.F) {
	query, err := dnscheck.PackQuery(host)
	if err != nil {
		f.Fatal(err)
	}
	for _, z := range []zone{
		zoneOf(start("example.com"), txt(host, token)),
		zoneOf(start("example.com"), cname(host, "b.example.com")),
		zoneOf(start("example.com"), ns("org-1.example.com", "ns.org-1.example.com"), address("ns.org-1.example.com", nsOne),
			ns("org-1.example.com", "ns.hoster.net")),
		zoneOf(start("com"), ns(host, "ns."+host), address("ns."+host, "2a00::1")),
		zoneOf(start("example.com"), dname("org-1.example.com", "elsewhere.com")),
		refused, servfail, noName,
	} {
		f.Add(z.packed(query))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var id uint16
		if len(raw) >= 2 {
			id = binary.BigEndian.Uint16(raw)
		}
		said, err := dnscheck.ReadServerAnswer(raw, id, "example.com.", host, token)
		if err != nil || said.State == dnscheck.Unknown && said.Alias == "" && said.Down == "" {
			return
		}
		if said.Down != "" {
			if said.Down == "example.com." || !dns.IsSubDomain("example.com.", said.Down) ||
				!dns.IsSubDomain(said.Down, dns.CanonicalName(host)) {
				t.Fatalf("referred to %q", said.Down)
			}
			if len(said.Servers) > dnscheck.MaxServers {
				t.Fatalf("%d servers", len(said.Servers))
			}
			for _, name := range said.Glue {
				if !dns.IsSubDomain(said.Down, name) {
					t.Fatalf("glue for %q with a referral to %q", name, said.Down)
				}
			}
		}
		m := new(dns.Msg)
		if err := m.Unpack(raw); err != nil {
			t.Fatalf("the codec refuses what was taken: %v", err)
		}
		if (said.State != dnscheck.Unknown || said.Alias != "") && !m.Authoritative {
			t.Fatalf("%+v without authority", said)
		}
		if said.State != dnscheck.Unknown && (said.Alias != "" || said.Down != "") {
			t.Fatalf("two things at once: %+v", said)
		}
	})
}

// FuzzParseResolver checks that an accepted resolver survives String and ParseResolver, and
// that errors are printable ASCII.
func FuzzParseResolver(f *testing.F) {
	for _, s := range []string{"1.1.1.1", "tcp://[::1]:5353", "https://8.8.8.8/dns-query#dns.google",
		"https://[2606::1]:8443/a/b", "https://dns.google/", "https://1.1.1.1#", "fe80::1%eth0", "https://1.1.1.1/%2e?x#y#z",
		"https://10.1.2.3#dns.eu.example@eu", "1.1.1.1@default"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := dnscheck.ParseResolver(text)
		if err != nil {
			for _, c := range strings.ReplaceAll(err.Error(), "…", "") {
				if c < ' ' || c > '~' {
					t.Fatalf("%q is refused with %q", text, err)
				}
			}
			return
		}
		again, err := dnscheck.ParseResolver(r.String())
		if err != nil || again != r {
			t.Fatalf("%q became %+v, which became %+v, %v", text, r, again, err)
		}
		r.Perspective = "" // a public resolver has none
		config := dnscheck.Config{Resolvers: []dnscheck.Resolver{r}, Mode: dnscheck.ModeAuthority}
		if c, err := dnscheck.New(config); err != nil {
			t.Fatalf("%+v cannot be asked: %v", r, err)
		} else {
			c.Close()
		}
	})
}

// FuzzRestoreLetters checks that RestoreCase accepts only replies with the name as sent, and
// changes only the case of its letters.
func FuzzRestoreLetters(f *testing.F) {
	query, err := dnscheck.PackQuery(host)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(query)
	f.Add(yes.packed(query))
	f.Add(append(query[:12:12], 0xC0, 12))
	f.Add(append(query[:12:12], 63))
	given := slices.Clone(dnscheck.QuestionName(query))
	sent := bytes.ToUpper(given)
	f.Fuzz(func(t *testing.T, raw []byte) {
		before := slices.Clone(raw)
		if !dnscheck.RestoreCase(raw, sent, given) {
			if !bytes.Equal(raw, before) {
				t.Fatal("changed what it does not take")
			}
			return
		}
		if !bytes.Equal(before[12:12+len(sent)], sent) || !bytes.Equal(dnscheck.QuestionName(raw), given) ||
			!bytes.EqualFold(raw, before) {
			t.Fatalf("%q became %q", before, raw)
		}
	})
}

// FuzzOperatorOf checks that the key is short, has only characters of host names, and does not
// depend on the order of name servers.
func FuzzOperatorOf(f *testing.F) {
	for _, s := range []string{"ns-1.awsdns-02.co.uk.", "a.b.c.", ".", "", `\000.\.x.com`, "1-2.3.", "--.--", "xn--1-.com",
		"\xff.com", "ns.ſ.com"} {
		f.Add(s, "ns1.example.com")
	}
	f.Fuzz(func(t *testing.T, one, two string) {
		key := dnscheck.OperatorOf([]string{one, two, one})
		if key != dnscheck.OperatorOf([]string{two, one}) {
			t.Fatal("it depends on the order")
		}
		if len(key) > dnscheck.MaxOperator {
			t.Fatalf("%d bytes", len(key))
		}
		for _, c := range []byte(key) {
			if (c < 'a' || c > 'z') && (c < '0' || c > '9') && !strings.ContainsRune("-_+", rune(c)) {
				t.Fatalf("%q", key)
			}
		}
	})
}
