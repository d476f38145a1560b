package engine_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"orgops/dnscheck"
	"orgops/internal/engine"
	"orgops/internal/engine/kinds"
	"orgops/internal/ledger"
	"orgops/internal/redistest"
	"orgops/internal/sandbox"
)

// The results of a proof if one of two name servers is silent.
var (
	isThin = func(v *dnscheck.Verdict) { v.Thin = true }

	serverDenies = func(v *dnscheck.Verdict) {
		v.Reason, v.Observations[1].State, v.Observations[1].Reason = dnscheck.ReasonServersDisagree, dnscheck.Absent, dnscheck.ReasonNoName
	}
	resolverDenies = func(v *dnscheck.Verdict) {
		v.Observations[4].State, v.Observations[4].Reason = dnscheck.Absent, dnscheck.ReasonNoRecord
	}
	resolverIsSilent = func(v *dnscheck.Verdict) {
		v.Observations[4].State, v.Observations[4].Reason = dnscheck.Unknown, dnscheck.ReasonTimeout
	}
)

// thinVerdict returns a proof that lacks one of two name servers.
func thinVerdict(host string, change func(*dnscheck.Verdict)) dnscheck.Verdict {
	v := dnscheck.Verdict{
		Reason: dnscheck.ReasonTooFew, Host: host, Basis: dnscheck.ByBoth, Zone: "example.com", Servers: 2, Answered: 1, Quorum: 2, Resolvers: 3,
		Observations: []dnscheck.Observation{
			{Resolver: "ns1.example.com", Authority: true, Address: "192.0.2.1:53", Transport: "udp", State: dnscheck.Present, Reason: dnscheck.ReasonFound, RCode: "NOERROR"},
			{Resolver: "ns2.example.com", Authority: true, Address: "192.0.2.2:53", Transport: "tcp", Reason: dnscheck.ReasonTimeout, Err: "no answer within 1s"},
		},
	}
	for i := range 3 {
		v.Observations = append(v.Observations, dnscheck.Observation{Resolver: fmt.Sprintf("tls://192.0.2.%d:853", i+53), Transport: "tls", State: dnscheck.Present, Reason: dnscheck.ReasonFound, RCode: "NOERROR"})
	}
	change(&v)
	return v
}

// thinSite is a site whose n-th proof is modified by proof(n).
type thinSite struct {
	*verifySite
	record sandbox.Domain
	proof  func(n int) func(*dnscheck.Verdict)
	proofs []time.Time
}

func newThinSite(t *testing.T, after time.Duration, proof func(n int) func(*dnscheck.Verdict), change ...func(*kinds.VerifyRow)) *thinSite {
	s := &thinSite{verifySite: newVerifySite(t), proof: proof}
	s.record = s.domain(sandbox.Domain{Domain: "mine.example", Host: "_ss.mine.example", TXT: "mine"}, true)
	s.config.ThinProofAfter = after
	s.config.DNS = proving{s.config.DNS, func(_ context.Context, host, _ string) (dnscheck.Verdict, error) {
		s.proofs = append(s.proofs, s.clock.now())
		return thinVerdict(host, s.proof(len(s.proofs)-1)), nil
	}}
	s.verify(change...)
	return s
}

func always(change func(*dnscheck.Verdict)) func(int) func(*dnscheck.Verdict) {
	return func(int) func(*dnscheck.Verdict) { return change }
}

// wantAccepted checks that the row is done by proofs that are thin since then, and not before
// their time.
func (s *thinSite) wantAccepted(since time.Time, after time.Duration) ledger.Result {
	s.t.Helper()
	for s.step() {
		if len(s.writes()) > 0 {
			break
		}
	}
	lasted := s.clock.now().Sub(since)
	if lasted < after-time.Second || lasted > after+10*time.Minute {
		s.t.Errorf("accepted after %v, want %v", lasted, after)
	}
	r := s.wantResult(ledger.Done, "")
	s.wantStatus("verified")
	return r
}

// TestVerifyThin checks that proofs which were thin for the configured time are accepted, and
// reported as thin.
func TestVerifyThin(t *testing.T) {
	t.Parallel()
	for _, after := range []time.Duration{time.Hour, 24 * time.Hour, 96 * time.Hour}[:redistest.Amount(2, 3)] {
		t.Run(after.String(), func(t *testing.T) {
			s := newThinSite(t, after, always(isThin))
			s.step()
			since := s.proofs[0]
			want := "Only 1 of the 2 name servers of example.com answered for the TXT record at " + s.record.Host +
				"; it has the expected value, and so have all resolvers: accepted if that is still so at "
			if e := s.state().Evidence; e == nil || !strings.HasPrefix(e.Sentence, want) {
				t.Errorf("evidence %+v, want %s", e, want)
			}
			r := s.wantAccepted(since, after)
			e, err := kinds.ReadEvidence(r.Evidence)
			if err != nil || e.ThinProof == nil || e.ThinProof.Checks != len(s.proofs) || len(s.proofs) < 5 || e.State != "unknown" || len(e.Said) != 5 ||
				e.ThinProof.Since.Sub(since).Abs() > time.Second {
				t.Errorf("evidence %+v, %v, after %d proofs since %v", e, err, len(s.proofs), since)
			}
		})
	}
	t.Run("off", func(t *testing.T) {
		s := newThinSite(t, 0, always(isThin))
		s.wantResult(engine.Expired, "so have all resolvers.")
		if len(s.writes()) != 0 {
			t.Errorf("PATCHes %v", s.writes())
		}
	})
	t.Run("never for long", func(t *testing.T) {
		s := newThinSite(t, time.Hour, always(isThin))
		for s.step() {
			s.clock.advance(time.Hour)
		}
		s.wantResult(engine.Expired, "")
	})
}

// TestVerifyThinContested restarts the time after an answer against the token.
func TestVerifyThinContested(t *testing.T) {
	t.Parallel()
	const after = time.Hour
	for name, contested := range map[string]func(*dnscheck.Verdict){"name server": serverDenies, "resolver": resolverDenies} {
		for k := range 9 {
			if (k+len(name))%redistest.Stride(4) != 0 {
				continue
			}
			t.Run(fmt.Sprintf("%s, proof %d", name, k), func(t *testing.T) {
				s := newThinSite(t, after, func(n int) func(*dnscheck.Verdict) {
					if n == k {
						return contested
					}
					return isThin
				})
				for len(s.proofs) < k+2 {
					s.step()
				}
				s.wantAccepted(s.proofs[k+1], after)
			})
		}
	}
	for k := 1; k < 9; k += redistest.Stride(3) {
		t.Run(fmt.Sprintf("check after proof %d", k), func(t *testing.T) {
			s := newThinSite(t, after, always(isThin))
			for len(s.proofs) < k {
				s.step()
			}
			s.sandbox.SetTXT(s.record.Host, "gone")
			s.step()
			s.sandbox.SetTXT(s.record.Host, s.record.TXT)
			for len(s.proofs) < k+1 {
				s.step()
			}
			s.wantAccepted(s.proofs[k], after)
		})
	}
}

// TestVerifyThinUnanswered checks that checks without an answer do not count. They restart the
// time if there is no other check for a quarter of it.
func TestVerifyThinUnanswered(t *testing.T) {
	const after = 24 * time.Hour
	for name, c := range map[string]struct {
		silent time.Duration
		anew   bool
	}{"for hours": {3 * time.Hour, false}, "for long": {7 * time.Hour, true}} {
		t.Run(name, func(t *testing.T) {
			var s *thinSite
			var begins, ends time.Time
			s = newThinSite(t, after, func(int) func(*dnscheck.Verdict) {
				if now := s.clock.now(); now.After(begins) && now.Before(ends) {
					return resolverIsSilent
				}
				return isThin
			})
			begins, ends = s.began.Add(10*time.Hour), s.began.Add(10*time.Hour+c.silent)
			s.until(ends)
			since := s.proofs[0]
			if c.anew {
				n := len(s.proofs)
				if !s.proofs[n-1].After(ends) {
					for len(s.proofs) == n {
						s.step()
					}
				}
				since = s.proofs[len(s.proofs)-1]
			}
			s.wantAccepted(since, after)
		})
	}
	t.Run("to a check", func(t *testing.T) {
		s := newThinSite(t, after, always(isThin))
		s.until(s.began.Add(10 * time.Hour))
		s.sandbox.SetRCode(s.record.Host, 2, -1)
		s.step()
		s.sandbox.SetRCode(s.record.Host, 2, 0)
		s.wantAccepted(s.proofs[0], after)
	})
}

// TestVerifyThinRecord restarts the time if the record changes.
func TestVerifyThinRecord(t *testing.T) {
	const after = time.Hour
	s := newThinSite(t, after, always(isThin))
	for len(s.proofs) < 5 {
		s.step()
	}
	s.sandbox.SetTXT(s.record.Host, s.record.TXT, "renewed")
	s.record.TXT = "renewed"
	s.sandbox.SetDomain(org, s.record)
	n := len(s.proofs)
	for s.state().Record.TXT != "renewed" {
		s.step()
	}
	if len(s.proofs) > n+1 {
		t.Fatalf("%d proofs before the record was read", len(s.proofs)-n)
	}
	s.wantAccepted(s.proofs[len(s.proofs)-1], after)
}

// TestVerifyThinKilled kills workers at each point of the executions around the end of the
// time. The proof is not accepted earlier.
func TestVerifyThinKilled(t *testing.T) {
	const after = time.Hour
	for point := 0; ; point += redistest.Stride(4) {
		died := ""
		t.Run(fmt.Sprint(point), func(t *testing.T) {
			s := newThinSite(t, after, always(isThin))
			for len(s.proofs) < 8 {
				s.step()
			}
			died = s.die(point)
			r := s.wantAccepted(s.proofs[0], after)
			if e, err := kinds.ReadEvidence(r.Evidence); err != nil || e.ThinProof == nil {
				t.Errorf("evidence %+v, %v", e, err)
			}
		})
		if died == "" {
			break
		}
	}
}

func TestCheckThinProofAfter(t *testing.T) {
	for after, ok := range map[time.Duration]bool{0: true, time.Hour: true, 96 * time.Hour: true, time.Minute: false, -1: false} {
		if err := kinds.CheckThinProofAfter(after); (err == nil) != ok {
			t.Errorf("%v: %v", after, err)
		}
	}
}
