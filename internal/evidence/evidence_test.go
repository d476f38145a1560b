package evidence_test

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"orgops/apiclient/schema"
	"orgops/dnscheck"
	"orgops/dnscheck/report"
	"orgops/internal/discovery"
	"orgops/internal/evidence"
	"orgops/internal/ledger"
	"orgops/internal/redistest"
	"orgops/tasks"
)

var now = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

const (
	organization = "org_9XkT2mQpLw7RbVnZ"
	token        = "5c9f6b0e8d3a47c2b1f04e6d7a8c9b3e"
)

// random returns n of the characters that a name may have.
func random(n int) string {
	const all = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	var b strings.Builder
	for range n {
		b.WriteByte(all[rand.IntN(len(all))])
	}
	return b.String()
}

// noise returns n bytes that do not compress, as a value may have them.
func noise(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rand.Uint32())
	}
	return string(b)
}

// record returns a domain as the service has them, with random ids.
func record() discovery.Domain {
	raw := make([]byte, 16)
	for i := range raw {
		raw[i] = byte(rand.Uint32())
	}
	domain := strings.ToLower(strings.NewReplacer("-", "a", "_", "b").Replace(random(8+rand.IntN(10)))) + ".com"
	return discovery.Domain{
		OrganizationID: organization, ID: "ord_" + random(22), Name: domain, Status: schema.StatusPending,
		Host: "_ss-verification." + organization + "." + domain, TXT: fmt.Sprintf("%x", raw),
	}
}

// absent returns the verdict of a check that n name servers answer with no such name, or
// with other values.
func absent(host string, n int, values ...string) dnscheck.Verdict {
	v := dnscheck.Verdict{State: dnscheck.Absent, Reason: dnscheck.ReasonNoName, Host: host, Basis: dnscheck.ByAuthority,
		Quorum: 2, Resolvers: 3}
	rcode := "NXDOMAIN"
	if len(values) > 0 {
		v.Reason, rcode = dnscheck.ReasonOtherValue, "NOERROR"
	}
	provider := random(8)
	for i := range n {
		v.Observations = append(v.Observations, dnscheck.Observation{
			Resolver: fmt.Sprintf("ns%d.%s.com", i+1, provider), Authority: true, Transport: "udp", State: v.State,
			Reason: v.Reason, RCode: rcode, Values: values,
			Address: fmt.Sprintf("%d.%d.%d.%d:53", 1+rand.IntN(200), rand.IntN(256), rand.IntN(256), rand.IntN(256)),
			Took:    time.Duration(1+rand.IntN(90_000)) * time.Microsecond,
		})
	}
	return v
}

// waiting returns the state of a row after its first check.
func waiting(d discovery.Domain, v dnscheck.Verdict, at time.Time) evidence.State {
	e := evidence.OfCheck(v.Evidence(), at)
	e.Record = evidence.RecordOf(d)
	return evidence.State{Record: evidence.RecordOf(d), Found: []byte(noise(8)), Diagnosed: at.Unix(), Evidence: &e}
}

// mistaken returns the state of a waiting row: of three records one is nowhere, one at the domain,
// and one is quoted.
func mistaken(d discovery.Domain, servers, row int) evidence.State {
	quoted := strconv.Quote(d.TXT)
	values, found := []string(nil), []report.Finding(nil)
	switch row % 3 {
	case 1:
		found = []report.Finding{{Mistake: report.MistakeApex, Host: d.Name}}
	case 2:
		values = []string{quoted}
		found = []report.Finding{{Mistake: report.MistakeQuoted, Host: d.Host, Found: strconv.Quote(quoted)}}
	}
	s := waiting(d, absent(d.Host, servers, values...), now)
	s.Evidence.Findings = found
	return s
}

// TestMemoIsSmall packs the states of waiting rows and reads them back.
func TestMemoIsSmall(t *testing.T) {
	const mean = 300
	total, n := 0, 0
	for name, c := range map[string]struct {
		servers int
		values  []string
	}{"two servers": {2, nil}, "four servers": {4, nil},
		"another value": {2, []string{"v=spf1 include:_spf.example.net -all"}}, "another token": {4, []string{token}}} {
		size := 0
		for i := range 20 {
			d := record()
			s := waiting(d, absent(d.Host, c.servers, c.values...), now)
			s.Evidence.Findings = mistaken(d, c.servers, i).Evidence.Findings
			memo, err := s.Pack()
			if err != nil {
				t.Fatal(err)
			}
			size += len(memo)
			got, err := evidence.ReadState(memo)
			if err != nil || s.Evidence.Advice() != got.Evidence.Advice() || (got.Evidence.Sentence == "") != (i%3 > 0) {
				t.Errorf("read back %+v, %v", got.Evidence, err)
			}
			s.Evidence.Sentence = got.Evidence.Sentence
			if diff := cmp.Diff(s, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		}
		t.Logf("%s: %d bytes", name, size/20)
		total, n = total+size, n+20
	}
	if total/n > mean {
		t.Errorf("the mean is %d bytes, want at most %d", total/n, mean)
	}
}

// TestMemoHasABound checks the bound for any answers of servers and any record.
func TestMemoHasABound(t *testing.T) {
	v := loud()
	long := discovery.Domain{Name: random(253), Host: random(253), TXT: random(4096)}
	for name, c := range map[string]struct {
		record discovery.Domain
		kept   bool
	}{"usual record": {record(), true}, "longest record": {long, false}} {
		state := waiting(c.record, v, now)
		finding := []report.Finding{{Mistake: report.MistakeDoubled, Host: random(200), Found: random(64)}}
		state.Evidence.Findings = finding
		memo, err := state.Pack()
		if err != nil || len(memo) > evidence.MaxEvidence {
			t.Fatalf("%s: %d bytes, %v", name, len(memo), err)
		}
		s, err := evidence.ReadState(memo)
		if err != nil || (s.Record != nil) != c.kept || s.Evidence == nil || len(s.Evidence.Said) != 24 ||
			s.Evidence.Advice() == "" || cmp.Diff(finding, s.Evidence.Findings) != "" {
			t.Errorf("%s: read back %+v, %v", name, s, err)
		}
		packed, err := state.Evidence.Pack() // as of a row that has expired
		if err != nil || len(packed) > evidence.MaxEvidence {
			t.Fatalf("%s: %d bytes, %v", name, len(packed), err)
		}
		e, err := evidence.Read(packed)
		if err != nil || (e.Record != nil) != c.kept || len(e.Said) != 24 || cmp.Diff(finding, e.Findings) != "" {
			t.Errorf("%s: read back %+v, %v", name, e, err)
		}
	}
	for name, memo := range map[string]string{"another version": "\x09x", "cut short": "\x03"} {
		if _, err := evidence.ReadState([]byte(memo)); err == nil || !strings.Contains(err.Error(), "newer") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestNearestFinding: of a diagnosis the nearest mistake is stored, and its sentence is made again.
func TestNearestFinding(t *testing.T) {
	d := record()
	state := waiting(d, absent(d.Host, 2, token), now)
	state.Evidence.Findings = []report.Finding{
		{Mistake: report.MistakeQuoted, Host: d.Host, Found: `"x"`, Sentence: "of a former version"},
		{Mistake: report.MistakeApex, Host: d.Name, Sentence: "the second"},
	}
	want := []report.Finding{{Mistake: report.MistakeQuoted, Host: d.Host, Found: `"x"`}}
	memo, err := state.Pack()
	if err != nil {
		t.Fatal(err)
	}
	read, err := evidence.ReadState(memo)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, read.Evidence.Findings); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if advice := read.Evidence.Advice(); !strings.Contains(advice, "has quotation marks") || read.Evidence.Sentence != "" {
		t.Errorf("advice %q, sentence %q", advice, read.Evidence.Sentence)
	}
	if n := len(state.Evidence.Findings); n != 2 {
		t.Errorf("%d findings are left of the packed state, want 2", n)
	}
}

// loud returns the verdict of a check that sixteen name servers and eight resolvers answer with as
// much as they can.
func loud() dnscheck.Verdict {
	v := dnscheck.Verdict{State: dnscheck.Unknown, Reason: dnscheck.ReasonServersDisagree, Host: "_v.example.com",
		Basis: dnscheck.ByAuthority, Note: random(2000), Quorum: 2, Resolvers: 3}
	said := []struct {
		state  dnscheck.State
		reason dnscheck.Reason
	}{{dnscheck.Absent, dnscheck.ReasonOtherValue}, {dnscheck.Present, dnscheck.ReasonFound},
		{dnscheck.Unknown, dnscheck.ReasonTimeout}, {dnscheck.Unknown, dnscheck.ReasonServFail}}
	for i := range 24 {
		o := dnscheck.Observation{
			Resolver: random(250), Authority: i < 16, Address: fmt.Sprintf("[2001:db8::%x]:53", i), Transport: "udp",
			State: said[i*7%4].state, Reason: said[i*7%4].reason,
			Operator: random(100), Perspective: random(100), Aliases: []string{random(250), random(250)}, MoreValues: 990,
			EDE: random(300), Err: random(300), Authenticated: i%3 == 0,
		}
		for range 10 {
			o.Values = append(o.Values, noise(255))
		}
		v.Observations = append(v.Observations, o)
	}
	return v
}

// TestEvidenceHasABound checks the bound, and that for usual servers nothing is omitted.
func TestEvidenceHasABound(t *testing.T) {
	packed, err := evidence.OfCheck(loud().Evidence(), now).Pack()
	if err != nil || len(packed) > evidence.MaxEvidence {
		t.Fatalf("%d bytes, %v", len(packed), err)
	}
	e, err := evidence.Read(packed)
	if err != nil || len(e.Said) != 24 {
		t.Fatalf("%d observations are read back, of 24; %v", len(e.Said), err)
	}
	for i, o := range loud().Observations {
		got := e.Said[i]
		if got.State != o.State.String() || got.Reason != string(o.Reason) || got.Authority != o.Authority ||
			got.Authenticated != o.Authenticated || got.Asked == "" {
			t.Errorf("observation %d: %+v, want %+v", i, got, o)
		}
	}

	v := absent("_v.example.com", 16, "v=spf1 include:_spf.example.net -all", "MS=ms12345678")
	if packed, err = evidence.OfCheck(v.Evidence(), now).Pack(); err != nil || len(packed) > evidence.MaxEvidence {
		t.Fatalf("usual servers: %d bytes, %v", len(packed), err)
	}
	want := v.Evidence()
	want.At, want.Sentence = now, ""
	for i := range want.Said {
		want.Said[i].Milliseconds = math.Round(want.Said[i].Milliseconds)
	}
	if e, err = evidence.Read(packed); err != nil || cmp.Diff(want, e.Evidence) != "" {
		t.Errorf("usual servers: %v (-want +got):\n%s", err, cmp.Diff(want, e.Evidence))
	}
	for name, packed := range map[string]string{"none": "", "of another version": "\x09x", "cut short": "\x02"} {
		if e, err := evidence.Read([]byte(packed)); err == nil {
			t.Errorf("%s: read %+v", name, e)
		}
	}
}

// proofs returns verdicts by which domains are verified, as they are in the field.
func proofs() map[string]dnscheck.Verdict {
	resolvers := []dnscheck.Observation{
		{Resolver: "https://1.1.1.1:443/dns-query#one.one.one.one", Operator: "Cloudflare",
			Perspective: "default", Transport: "https"},
		{Resolver: "https://8.8.8.8:443/dns-query#dns.google", Operator: "Google",
			Perspective: "default", Transport: "https"},
		{Resolver: "https://9.9.9.9:443/dns-query#dns.quad9.net", Operator: "Quad9",
			Perspective: "default", Transport: "https"},
	}
	all := map[string]dnscheck.Verdict{}
	for name, zone := range map[string]struct {
		servers []string
		alias   string
	}{
		"two servers": {servers: []string{"dns1.registrar-servers.com", "dns2.registrar-servers.com"}},
		"four of a provider": {servers: []string{"ns-1234.awsdns-26.org", "ns-567.awsdns-06.net", "ns-2001.awsdns-58.co.uk",
			"ns-42.awsdns-05.com"}},
		"an alias": {servers: []string{"dns1.p01.nsone.net", "dns2.p01.nsone.net"},
			alias: "verify-4711.dns-delegation.example.net"},
		"other values": {servers: []string{"ns1.digitalocean.com", "ns2.digitalocean.com", "ns3.digitalocean.com"}},
	} {
		v := dnscheck.Verdict{State: dnscheck.Present, Reason: dnscheck.ReasonFound, Basis: dnscheck.ByBoth,
			Quorum: 2, Resolvers: 3}
		add := func(o dnscheck.Observation) {
			o.State, o.Reason, o.RCode, o.Values = dnscheck.Present, dnscheck.ReasonFound, "NOERROR", []string{token}
			o.Took = time.Duration(1+rand.IntN(90)) * time.Millisecond
			if zone.alias != "" {
				o.Aliases = []string{zone.alias}
			}
			v.Observations = append(v.Observations, o)
		}
		for _, server := range zone.servers {
			add(dnscheck.Observation{Resolver: server, Authority: true,
				Address:   fmt.Sprintf("%d.%d.%d.%d:53", 1+rand.IntN(200), rand.IntN(256), rand.IntN(256), rand.IntN(256)),
				Transport: "udp"})
		}
		for _, o := range resolvers {
			add(o)
		}
		all[name] = v
	}
	return all
}

// TestProofsAreSmall checks the size of a proof, since every verified domain has one.
func TestProofsAreSmall(t *testing.T) {
	const mean = 240
	const rounds = 200 // of random addresses and ids: the mean of fewer differs by a byte
	total, sizes := 0, map[string]int{}
	for range rounds {
		for name, v := range proofs() {
			d := record()
			packed, err := evidence.OfProof(v.Evidence(), d, now).Pack()
			if err != nil || len(packed) > evidence.MaxEvidence {
				t.Fatalf("%s: %d bytes, %v", name, len(packed), err)
			}
			total, sizes[name] = total+len(packed), sizes[name]+len(packed)
			e, err := evidence.Read(packed)
			want := &evidence.Record{OrganizationID: organization, DiscoveryDomainID: d.ID, Domain: d.Name,
				Host: d.Host, TXT: d.TXT}
			if err != nil || cmp.Diff(want, e.Compared) != "" {
				t.Errorf("%s: read back %+v, %v", name, e, err)
			}
			byName := cmpopts.SortSlices(func(a, b report.Observation) int { return strings.Compare(a.Asked, b.Asked) })
			leftOut := cmpopts.IgnoreFields(report.Observation{}, "Values", "RCode")
			if diff := cmp.Diff(v.Evidence().Said, e.Said, byName, leftOut); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
	}
	for name, size := range sizes {
		t.Logf("%s: %d bytes", name, size/rounds)
	}
	total /= rounds
	if n := total / len(proofs()); n > mean {
		t.Errorf("the mean is %d bytes, want at most %d", n, mean)
	}
	long := discovery.Domain{OrganizationID: random(64), ID: random(64), Name: random(253), Host: random(253),
		TXT: random(4096)}
	packed, err := evidence.OfProof(loud().Evidence(), long, now).Pack()
	if err != nil || len(packed) > evidence.MaxEvidence {
		t.Fatalf("the longest record: %d bytes, %v", len(packed), err)
	}
	e, err := evidence.Read(packed)
	if err != nil || e.Compared.TXTSHA256 == "" || len(e.Said) != 24 {
		t.Errorf("the longest record: read back %+v, %v", e.Compared, err)
	}
	sum := e.Compared.TXTSHA256
	long.TXT = random(4096)
	if evidence.ProvenRecordOf(long).TXTSHA256 == sum {
		t.Error("another long token is the one compared")
	}
}

// TestSizesOfRows measures the memory of a row from its submission on, and compares it with the
// sizes of docs/operations/sizing.md. miniredis has no MEMORY USAGE.
func TestSizesOfRows(t *testing.T) {
	if os.Getenv(redistest.EnvURL) == "" {
		t.Skip("needs a real Redis: set " + redistest.EnvURL)
	}
	const rows = ledger.SegmentRows
	rdb := redistest.New(t)
	l := ledger.New(rdb)
	run, _, err := l.Create(t.Context(), ledger.NewRun{ID: "a", Tenant: "acme", Kind: tasks.TypeVerify})
	if err != nil {
		t.Fatal(err)
	}
	domains := make([]discovery.Domain, rows)
	stager, err := l.NewStager(t.Context(), run)
	for i := range domains {
		domains[i] = record()
		row := fmt.Appendf(nil, `{"organization_id":"org_%s","discovery_domain_id":%q}`, random(16), domains[i].ID)
		if err == nil {
			err = stager.Add(t.Context(), row)
		}
	}
	if err == nil {
		run, err = stager.Commit(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	size := func(what string, want int) {
		t.Helper()
		var total int64
		for _, key := range redistest.Keys(t, "*:"+string(run.Incarnation)+".*") {
			total += rdb.MemoryUsage(t.Context(), key, 0).Val()
		}
		got := int(total / rows)
		t.Logf("%d bytes a row: %s", got, what)
		if got > want || got < want*4/5 {
			t.Errorf("%d bytes a row, %s, and %d are documented: want at most these, and four fifths at least", got, what, want)
		}
	}
	size("submitted", 45)
	seg := ledger.Segment{Tenant: run.Tenant, Run: run.ID, Incarnation: run.Incarnation}
	each := func(q ledger.Quota, do func(ledger.Token, ledger.Row)) {
		for n := 0; n < rows; {
			r, err := l.Release(t.Context(), seg, q)
			if err != nil {
				t.Fatal(err)
			}
			for _, released := range r.Rows {
				do(r.Token, released.Row)
				n++
			}
		}
	}
	each(ledger.Quota{First: 250}, func(token ledger.Token, row ledger.Row) { // after a check of two to four name servers
		memo, err := mistaken(domains[row], 2+rand.IntN(3), int(row)).Pack()
		if err != nil {
			t.Fatal(err)
		}
		memo = append([]byte(ledger.NotYetFound+"\x00\x00"), memo...)
		execute(t, l, seg, token, row, ledger.Waiting{Stage: ledger.StageCheck, After: time.Millisecond, Memo: memo})
	})
	size("waiting", 500)
	verdicts := slices.Collect(maps.Values(proofs()))
	each(ledger.Quota{Check: 250}, func(token ledger.Token, row ledger.Row) {
		packed, err := evidence.OfProof(verdicts[int(row)%len(verdicts)].Evidence(), domains[row], now).Pack()
		if err != nil {
			t.Fatal(err)
		}
		execute(t, l, seg, token, row, ledger.Result{Outcome: ledger.Done, Evidence: packed})
	})
	size("verified", 340)
}

// execute begins a released row and ends its execution so.
func execute(t *testing.T, l *ledger.Ledger, seg ledger.Segment, token ledger.Token, row ledger.Row, e ledger.Ending) {
	t.Helper()
	nonce := ledger.NewNonce()
	_, err := l.Begin(t.Context(), seg, ledger.Execution{Token: token, Nonce: nonce, Session: ledger.NewSessionID()}, row)
	if err == nil {
		_, err = l.End(t.Context(), seg, nonce, ledger.Ends(e, row)...)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestProves compares the record of a proof with the domain that is read later.
func TestProves(t *testing.T) {
	const long = 200
	for name, c := range map[string]struct {
		change func(*discovery.Domain)
		want   bool
	}{
		"the same":           {func(*discovery.Domain) {}, true},
		"a host in capitals": {func(d *discovery.Domain) { d.Host = strings.ToUpper(d.Host) + "." }, true},
		"another status":     {func(d *discovery.Domain) { d.Status = schema.StatusVerified }, true},
		"another name":       {func(d *discovery.Domain) { d.Name = "other.example" }, false},
		"another host":       {func(d *discovery.Domain) { d.Host = "_other." + d.Host }, false},
		"another token":      {func(d *discovery.Domain) { d.TXT = "other" }, false},
		"another long token": {func(d *discovery.Domain) { d.TXT = strings.Repeat("y", long) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			proven := record()
			if name == "another long token" {
				proven.TXT = strings.Repeat("x", long)
			}
			packed, err := evidence.OfProof(absent(proven.Host, 2).Evidence(), proven, now).Pack()
			if err != nil {
				t.Fatal(err)
			}
			e, err := evidence.Read(packed)
			if err != nil {
				t.Fatal(err)
			}
			read := proven
			c.change(&read)
			if got := e.Compared.Proves(read); got != c.want {
				t.Errorf("proves: %t, want %t", got, c.want)
			}
		})
	}
}
