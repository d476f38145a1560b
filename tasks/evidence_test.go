package tasks_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"orgops/apiclient"
	"orgops/dnscheck"
	"orgops/internal/sandbox"
	"orgops/tasks"
)

// evidence is what the ledger keeps of the row's last look; nil: nothing.
func (w *world) evidence(run string) *dnscheck.Evidence {
	w.t.Helper()
	state, err := w.ledger.Row(w.t.Context(), run, 0, tasks.RecordMark)
	if err != nil {
		w.t.Fatal(err)
	}
	if state.Evidence == nil {
		return nil
	}
	e, err := tasks.ReadEvidence(state.Evidence)
	if err != nil {
		w.t.Fatal(err)
	}
	return &e.Evidence
}

// TestEvidenceIsKept of the last look, and of a proof that no longer finds the token,
// until the row is done.
func TestEvidenceIsKept(t *testing.T) {
	w := newWorld(t)
	d := w.sandbox.AddDomain(org, sandbox.Domain{ID: dom})
	w.sandbox.SetTXT(d.Host, "v=other", "v=more\x07")
	run := w.submit(tasks.TypeVerify, verifyRow())
	if w.evidence(run) != nil {
		t.Error("something is kept of a row that nobody has looked at")
	}
	w.step()
	found := func(resolvers int, values ...string) *dnscheck.Evidence {
		said := dnscheck.ObservationRecord{
			Perspective: "default", Transport: "udp", State: "absent", Reason: "other_value", Values: values, RCode: "NOERROR", NegativeTTL: 1,
		}
		return &dnscheck.Evidence{
			At: w.clock.now(), State: "absent", Reason: "other_value", Basis: "resolvers", Quorum: 2, Resolvers: 3, NegativeTTL: 1, Said: slices.Repeat([]dnscheck.ObservationRecord{said}, resolvers),
		}
	}
	unmeasured := cmpopts.IgnoreFields(dnscheck.ObservationRecord{}, "Asked", "Operator", "Milliseconds")
	if diff := cmp.Diff(found(2, `"v=other"`, `"v=more\a"`), w.evidence(run), unmeasured); diff != "" {
		t.Errorf("after a look (-want +got):\n%s", diff)
	}
	w.sandbox.SetTXT(d.Host, d.TXT)
	w.step()
	w.sandbox.SetTXT(d.Host, "gone")
	w.step()
	if diff := cmp.Diff(found(3, `"gone"`), w.evidence(run), unmeasured); diff != "" {
		t.Errorf("after a proof (-want +got):\n%s", diff)
	}
	w.sandbox.SetTXT(d.Host, d.TXT)
	w.drain()
	w.wantFate(run, 0, "done")
	if e := w.evidence(run); e == nil || e.State != "present" {
		t.Errorf("of a row that is done %+v is kept, want its proof", e)
	}
}

// TestEvidenceOfAnExpiredRow is that of its last look.
func TestEvidenceOfAnExpiredRow(t *testing.T) {
	w := newWorld(t, func(s *settings) { s.giveUp = time.Hour })
	d := w.sandbox.AddDomain(org, sandbox.Domain{ID: dom})
	run := w.submit(tasks.TypeVerify, verifyRow())
	w.step()
	w.sandbox.SetTXT(d.Host, "v=other")
	w.drain()
	w.wantFate(run, 0, "expired")
	e := w.evidence(run)
	if e == nil || e.At != w.clock.now() || len(e.Said) != 2 || cmp.Diff([]string{`"v=other"`}, e.Said[0].Values) != "" {
		t.Errorf("kept is %+v, want what the last look has found", e)
	}
}

// noise is n bytes that do not compress, as a value may have them.
func noise(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rand.Uint32())
	}
	return string(b)
}

// letters is n characters of those that a name, or an extended error, may have.
func letters(n int) string {
	const all = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	var b strings.Builder
	for range n {
		b.WriteByte(all[rand.IntN(len(all))])
	}
	return b.String()
}

// TestEvidenceHasABound, whatever sixteen name servers say; and of an ordinary
// zone nothing is left out.
func TestEvidenceHasABound(t *testing.T) {
	const most = 2048
	v := dnscheck.Verdict{State: dnscheck.Unknown, Reason: dnscheck.ReasonServersDisagree, Host: "_v.example.com", Basis: dnscheck.ByAuthority, Note: letters(2000), Quorum: 2, Resolvers: 3}
	for i := range 16 {
		o := dnscheck.Observation{
			Resolver: letters(250), Authority: true, Address: fmt.Sprintf("[2001:db8::%x]:53", i), Transport: "udp", State: dnscheck.Absent, Reason: dnscheck.ReasonOtherValue,
			Aliases: []string{letters(250), letters(250)}, MoreValues: 990, EDE: letters(300), Err: letters(300),
		}
		for range 10 {
			o.Values = append(o.Values, noise(255))
		}
		v.Observations = append(v.Observations, o)
	}
	packed, err := tasks.PackVerdict(v, true, newWorldTime)
	if err != nil || len(packed) > most {
		t.Fatalf("%d bytes, %v: want %d at most", len(packed), err, most)
	}
	e, err := tasks.ReadEvidence(packed)
	if err != nil || len(e.Said) == 0 || len(e.Said)+e.More != 16 {
		t.Errorf("%d observations are read back, and %d are said to be left out, of 16; %v", len(e.Said), e.More, err)
	}

	v.Note = ""
	for i := range v.Observations {
		o := &v.Observations[i]
		o.Resolver, o.Took, o.RCode = fmt.Sprintf("ns%d.dns-provider.net", i/2), time.Duration(i*1234567), "NOERROR"
		o.Values, o.MoreValues, o.Aliases, o.EDE, o.Err = []string{"v=spf1 include:_spf.example.net -all", "MS=ms12345678"}, 0, nil, "", ""
	}
	if packed, err = tasks.PackVerdict(v, true, newWorldTime); err != nil || len(packed) > most {
		t.Fatalf("ordinary servers: %d bytes, %v: want %d at most", len(packed), err, most)
	}
	want := v.Evidence()
	want.At, want.Sentence = newWorldTime, ""
	if e, err = tasks.ReadEvidence(packed); err != nil || cmp.Diff(want, e.Evidence) != "" {
		t.Errorf("ordinary servers: %v (-want +got):\n%s", err, cmp.Diff(want, e.Evidence))
	}
	t.Logf("sixteen ordinary servers take %d bytes", len(packed))
}

func TestEvidenceThatCannotBeRead(t *testing.T) {
	for name, packed := range map[string]string{"none": "", "of another version": "\x03x", "cut short": "\x02"} {
		if e, err := tasks.ReadEvidence([]byte(packed)); err == nil {
			t.Errorf("%s: read %+v", name, e)
		}
	}
}

// proofs are verdicts by which domains are verified, as they are in the field: by zones of two
// to four name servers and three resolvers, behind an alias, with other records.
func proofs() map[string]dnscheck.Verdict {
	rand := rand.New(rand.NewPCG(1, 2)) // the same sizes each time
	resolvers := []dnscheck.Observation{
		{Resolver: "tls://1.1.1.1:853#one.one.one.one", Operator: "Cloudflare", Perspective: "default", Transport: "tls"},
		{Resolver: "tls://8.8.8.8:853#dns.google", Operator: "Google", Perspective: "default", Transport: "tls"},
		{Resolver: "tls://9.9.9.9:853#dns.quad9.net", Operator: "Quad9", Perspective: "default", Transport: "tls"},
	}
	all := map[string]dnscheck.Verdict{}
	for name, zone := range map[string]struct {
		servers []string
		alias   string
		values  []string
	}{
		"two servers":        {servers: []string{"dns1.registrar-servers.com", "dns2.registrar-servers.com"}},
		"four of a provider": {servers: []string{"ns-1234.awsdns-26.org", "ns-567.awsdns-06.net", "ns-2001.awsdns-58.co.uk", "ns-42.awsdns-05.com"}},
		"four addresses":     {servers: []string{"anna.ns.cloudflare.com", "bob.ns.cloudflare.com"}},
		"an alias":           {servers: []string{"dns1.p01.nsone.net", "dns2.p01.nsone.net"}, alias: "verify-4711.dns-delegation.example.net"},
		"other values":       {servers: []string{"ns1.digitalocean.com", "ns2.digitalocean.com", "ns3.digitalocean.com"}, values: []string{"v=spf1 include:_spf.example.net -all"}},
	} {
		v := dnscheck.Verdict{State: dnscheck.Present, Reason: dnscheck.ReasonFound, Basis: dnscheck.ByBoth, Quorum: 2, Resolvers: 3}
		add := func(o dnscheck.Observation) {
			o.State, o.Reason, o.RCode, o.Values = dnscheck.Present, dnscheck.ReasonFound, "NOERROR", append([]string{proofToken}, zone.values...)
			o.Took = time.Duration(1+rand.IntN(90_000)) * time.Microsecond
			if zone.alias != "" {
				o.Aliases = []string{zone.alias}
			}
			v.Observations = append(v.Observations, o)
		}
		for _, server := range zone.servers {
			add(dnscheck.Observation{Resolver: server, Authority: true, Address: fmt.Sprintf("%d.%d.%d.%d:53", 1+rand.IntN(200), rand.IntN(256), rand.IntN(256), rand.IntN(256)), Transport: "udp"})
			if name == "four addresses" {
				add(dnscheck.Observation{Resolver: server, Authority: true, Address: fmt.Sprintf("[2606:4700:50::adf5:%x]:53", rand.IntN(1<<16)), Transport: "udp"})
			}
		}
		for _, o := range resolvers {
			add(o)
		}
		all[name] = v
	}
	return all
}

const proofToken = "5c9f6b0e8d3a47c2b1f04e6d7a8c9b3e"

// TestProofsAreSmall: every verified domain has one.
func TestProofsAreSmall(t *testing.T) {
	const most, mean = 1024, 200
	total := 0
	for name, v := range proofs() {
		const organization = "org_9XkT2mQpLw7RbVnZ"
		d := apiclient.DiscoveryDomain{
			ID: "ord_4sWq8ZtPmB2xKcR7yHvNd1", Domain: "northwind-traders.com",
			VerificationHost: "_ss-verification.org_9XkT2mQpLw7RbVnZ.northwind-traders.com", VerificationTXT: proofToken,
		}
		packed, err := tasks.PackProof(v, organization, d, newWorldTime, nil)
		if err != nil || len(packed) > most {
			t.Fatalf("%s: %d bytes, %v; want %d at most", name, len(packed), err, most)
		}
		total += len(packed)
		e, err := tasks.ReadEvidence(packed)
		want := &tasks.Compared{OrganizationID: organization, DiscoveryDomainID: d.ID, Domain: d.Domain, Host: d.VerificationHost, TXT: d.VerificationTXT}
		if err != nil || len(e.Said)+e.More != len(v.Observations) || cmp.Diff(want, e.Compared) != "" {
			t.Errorf("%s: read back %+v, %v", name, e, err)
		}
		t.Logf("%s: %d bytes", name, len(packed))
	}
	t.Logf("mean %d bytes", total/len(proofs()))
	if total/len(proofs()) > mean {
		t.Errorf("the mean is %d bytes, want %d at most", total/len(proofs()), mean)
	}
	d := apiclient.DiscoveryDomain{ID: letters(64), Domain: letters(253), VerificationHost: letters(253), VerificationTXT: letters(4096)}
	if packed, err := tasks.PackProof(proofs()["four of a provider"], letters(64), d, newWorldTime, nil); err != nil || len(packed) > most {
		t.Errorf("the longest record: %d bytes, %v", len(packed), err)
	}
}

// TestProofKeepsOperatorsAndPerspectives of resolvers, whatever their names.
func TestProofKeepsOperatorsAndPerspectives(t *testing.T) {
	found := func(o dnscheck.Observation) dnscheck.Observation {
		o.State, o.Reason, o.RCode, o.Took = dnscheck.Present, dnscheck.ReasonFound, "NOERROR", 12*time.Millisecond
		return o
	}
	v := dnscheck.Verdict{State: dnscheck.Present, Reason: dnscheck.ReasonFound, Basis: dnscheck.ByBoth, Quorum: 2, Resolvers: 3, Observations: []dnscheck.Observation{
		found(dnscheck.Observation{Resolver: "ns1.example.com", Authority: true, Address: "192.0.2.1:53", Transport: "udp"}),
		found(dnscheck.Observation{Resolver: "tls://76.76.2.11:853#p2.freedns.controld.com", Operator: "Control D", Perspective: "default", Transport: "tls"}),
		found(dnscheck.Observation{Resolver: "tls://10.1.2.3:853#dns.eu.example@eu", Operator: "10.1.2.3", Perspective: "eu", Transport: "tls"}),
		found(dnscheck.Observation{Resolver: "tls://198.51.100.7:853#dns.us.example@us", Operator: "us.example", Perspective: "us", Transport: "tls", Authenticated: true}),
		found(dnscheck.Observation{Resolver: "ours", Operator: "198.51.100.0/24", Perspective: "ap", Transport: "udp"}),
		found(dnscheck.Observation{Resolver: "two words", Operator: "10.1.2.4", Perspective: "default", Transport: "tls"}),
	}}
	packed, err := tasks.PackProof(v, org, apiclient.DiscoveryDomain{}, newWorldTime, nil)
	if err != nil {
		t.Fatal(err)
	}
	e, err := tasks.ReadEvidence(packed)
	if err != nil {
		t.Fatal(err)
	}
	byName := cmpopts.SortSlices(func(a, b dnscheck.ObservationRecord) int { return strings.Compare(a.Asked, b.Asked) })
	if diff := cmp.Diff(v.Evidence().Said, e.Said, byName); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestDisproofIsKept: the verdict by which something is taken away keeps what was found in
// the token's place, within the bound of a proof.
func TestDisproofIsKept(t *testing.T) {
	d := apiclient.DiscoveryDomain{ID: dom, Domain: "example.com", VerificationHost: "_v.example.com", VerificationTXT: proofToken}
	v := dnscheck.Verdict{State: dnscheck.Absent, Reason: dnscheck.ReasonOtherValue, Host: d.VerificationHost, Basis: dnscheck.ByBoth, Quorum: 2, Resolvers: 3}
	add := func(o dnscheck.Observation) { v.Observations = append(v.Observations, o) }
	add(dnscheck.Observation{Resolver: "ns1.example.com", Authority: true, Address: "192.0.2.1:53", Transport: "udp", State: dnscheck.Absent, Reason: dnscheck.ReasonNoName, RCode: "NXDOMAIN"})
	add(dnscheck.Observation{Resolver: "r", Operator: "example.net", Perspective: "default", Transport: "tls", State: dnscheck.Absent, Reason: dnscheck.ReasonOtherValue, RCode: "NOERROR", Values: []string{"v=spf1 -all"}, MoreValues: 2})
	add(dnscheck.Observation{Resolver: "s", Operator: "example.org", Perspective: "default", Transport: "tls", State: dnscheck.Unknown, Reason: dnscheck.ReasonTimeout, Err: "i/o timeout"})
	packed, err := tasks.PackProof(v, org, d, newWorldTime, nil)
	if err != nil {
		t.Fatal(err)
	}
	e, err := tasks.ReadEvidence(packed)
	if err != nil {
		t.Fatal(err)
	}
	want := v.Evidence()
	want.At, want.Sentence = newWorldTime, ""
	if diff := cmp.Diff(want, e.Evidence); diff != "" {
		t.Errorf("read back (-want +got):\n%s", diff)
	}
	for range 16 {
		add(dnscheck.Observation{Resolver: letters(250), State: dnscheck.Absent, Reason: dnscheck.ReasonOtherValue, Values: []string{noise(255), noise(255), noise(255)}, EDE: letters(300)})
	}
	if packed, err = tasks.PackProof(v, org, d, newWorldTime, nil); err != nil || len(packed) > 1024 {
		t.Errorf("%d bytes, %v; want 1024 at most", len(packed), err)
	}
}

// proofOf is the evidence of the row's proof, and the record that it was made for.
func (w *world) proofOf(run string) tasks.Evidence {
	w.t.Helper()
	state, err := w.ledger.Row(w.t.Context(), run, 0, tasks.RecordMark)
	if err != nil {
		w.t.Fatal(err)
	}
	e, err := tasks.ReadEvidence(state.Evidence)
	if err != nil {
		w.t.Fatal(err)
	}
	return e
}

// TestProofIsKept with the row of a domain that was verified, wherever its worker died, and
// logged for auditors.
func TestProofIsKept(t *testing.T) {
	s := slices.DeleteFunc(scenarios(), func(s scenario) bool { return s.name != "verify" })[0]
	for k, call := range callsOf(t, s) {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d_%s_after_%t", k, call, after), func(t *testing.T) {
				w := s.world(t)
				w.saboteur.at, w.saboteur.after = k, after
				w.drain()
				w.wantFate("run0", 0, "done")
				d := w.sandbox.Domains(org)[0]
				want := &tasks.Compared{OrganizationID: org, DiscoveryDomainID: d.ID, Domain: d.Domain, Host: d.Host, TXT: d.TXT}
				e := w.proofOf("run0")
				if diff := cmp.Diff(want, e.Compared); diff != "" || e.State != "present" || e.Basis != "resolvers" || len(e.Said) != 3 || e.At.IsZero() {
					t.Errorf("kept is %+v; compared with (-want +got):\n%s", e, diff)
				}
				if n := strings.Count(w.log.String(), `"msg":"audit","event":"domain verified","tenant":"default","run":"run0","item":0,"organization_id":"`+org+`"`); n < 1 || n > 2 {
					t.Errorf("%d audit lines, want one, or another one of a second execution", n)
				}
				if log := w.log.String(); !strings.Contains(log, `"operators":["127.0.0.1:`) || !strings.Contains(log, `"perspectives":["default"]`) {
					t.Errorf("the audit line has no operators and perspectives: %s", log)
				}
			})
		}
	}
}
