package tasks_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

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
	return &e
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
	found := func(values ...string) *dnscheck.Evidence {
		said := dnscheck.ObservationRecord{
			Asked: w.sandbox.DNSAddr(), Transport: "udp", State: "absent", Reason: "other_value", Values: values, RCode: "NOERROR", NegativeTTL: 1,
		}
		return &dnscheck.Evidence{
			At: w.clock.now(), State: "absent", Reason: "other_value", Basis: "resolvers", Quorum: 1, Resolvers: 1, NegativeTTL: 1, Said: []dnscheck.ObservationRecord{said},
		}
	}
	unmeasured := cmpopts.IgnoreFields(dnscheck.ObservationRecord{}, "Milliseconds")
	if diff := cmp.Diff(found(`"v=other"`, `"v=more\a"`), w.evidence(run), unmeasured); diff != "" {
		t.Errorf("after a look (-want +got):\n%s", diff)
	}
	w.sandbox.SetTXT(d.Host, d.TXT)
	w.step()
	w.sandbox.SetTXT(d.Host, "gone")
	w.step()
	if diff := cmp.Diff(found(`"gone"`), w.evidence(run), unmeasured); diff != "" {
		t.Errorf("after a proof (-want +got):\n%s", diff)
	}
	w.sandbox.SetTXT(d.Host, d.TXT)
	w.drain()
	w.wantFate(run, 0, "done")
	if e := w.evidence(run); e != nil {
		t.Errorf("of a row that is done %+v is kept", e)
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
	if e == nil || e.At != w.clock.now() || len(e.Said) != 1 || cmp.Diff([]string{`"v=other"`}, e.Said[0].Values) != "" {
		t.Errorf("kept is %+v, want what the last look has found", e)
	}
}

// noise is n octets that do not compress, as a value may have them.
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
		t.Fatalf("%d octets, %v: want %d at most", len(packed), err, most)
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
		t.Fatalf("ordinary servers: %d octets, %v: want %d at most", len(packed), err, most)
	}
	want := v.Evidence()
	want.At, want.Sentence = newWorldTime, ""
	if e, err = tasks.ReadEvidence(packed); err != nil || cmp.Diff(want, e) != "" {
		t.Errorf("ordinary servers: %v (-want +got):\n%s", err, cmp.Diff(want, e))
	}
	t.Logf("sixteen ordinary servers take %d octets", len(packed))
}

func TestEvidenceThatCannotBeRead(t *testing.T) {
	for name, packed := range map[string]string{"none": "", "of another version": "\x02x", "cut short": "\x01"} {
		if e, err := tasks.ReadEvidence([]byte(packed)); err == nil {
			t.Errorf("%s: read %+v", name, e)
		}
	}
}
