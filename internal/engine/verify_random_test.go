package engine_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"orgops/internal/engine"
	"orgops/internal/ledger"
	"orgops/internal/redistest"
	"orgops/internal/sandbox"
)

// TestVerifyRandom disturbs a row in random ways, and lets it end. Its result must agree
// with the domain: verified if and only if the row is done.
func TestVerifyRandom(t *testing.T) {
	t.Parallel()
	for seed := uint64(0); seed < 100; seed += uint64(redistest.Stride(7)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, 1))
			s := newVerifySite(t, func(o *sandbox.Options) { o.ReadLag = time.Duration(r.IntN(3)) * time.Minute })
			d := s.domain(sandbox.Domain{Use: new(false)}, r.IntN(3) > 0)
			s.clock.advance(10 * time.Minute) // until the domain can be read
			s.giveUp, s.line = 3*time.Hour, line(time.Duration(r.IntN(2))*time.Minute)
			s.verify()
			s.run.CreatedAt = s.clock.now()
			var did []string
			for range 3 + r.IntN(8) {
				did = append(did, s.disturb(r, &d))
			}
			s.calm(r, d)
			result := s.settle()
			now, _ := s.sandbox.Domain(org, dom)
			if done := result.Outcome == ledger.Done; done != (now.Status == "verified") || *now.Use {
				t.Errorf("%s: %s; the domain is %s, flag %t; after %v", result.Outcome, result.Detail, now.Status, *now.Use, did)
			}

			if result.Outcome == engine.Failed || result.Outcome == engine.Unchanged {
				t.Errorf("%s: %s; after %v", result.Outcome, result.Detail, did)
			}
		})
	}
}

// disturb disturbs the row once, and returns the name of the disturbance.
func (s *verifySite) disturb(r *rand.Rand, d *sandbox.Domain) string {
	s.t.Helper()
	if s.row(0).Phase == ledger.PhaseSettled {
		return "settled"
	}
	switch r.IntN(12) {
	case 0:
		s.sandbox.SetTXT(d.Host, "gone")
		return "token gone"
	case 1, 2:
		s.sandbox.SetTXT(d.Host, d.TXT)
		return "token there"
	case 3:
		s.clock.advance(time.Duration(r.IntN(20)) * time.Second)
		return "time passes"
	case 4, 5:
		f := []sandbox.Fault{{DropAfter: true}, {DropBefore: true}, {Status: 503}, {Status: 503, Handled: true},
			{Status: 429}, {Truncate: true}}[r.IntN(6)]
		s.fail([]string{sandbox.OpUpdateDiscoveryDomain, sandbox.OpGetDiscoveryDomain}[r.IntN(2)], f)
		return fmt.Sprintf("fault %+v", f)
	case 6:
		return "died " + s.die(r.IntN(14))
	case 8:
		now, _ := s.sandbox.Domain(org, dom) // its status stays
		now.TXT = fmt.Sprintf("%032x", r.Uint64())
		s.sandbox.SetTXT(d.Host, d.TXT, now.TXT)
		s.sandbox.SetDomain(org, now)
		d.TXT = now.TXT
		return "token replaced"
	case 7:
		if r.IntN(2) == 0 {
			_ = s.Pause(s.t.Context(), tenant, s.run.ID)
			return "paused"
		}
		_ = s.Resume(s.t.Context(), tenant, s.run.ID)
		return "resumed"
	}
	s.step()
	return "step"
}

// calm ends the faults that delay the row, or cancels the run.
func (s *verifySite) calm(r *rand.Rand, d sandbox.Domain) {
	s.t.Helper()
	if s.row(0).Phase == ledger.PhaseSettled {
		return
	}
	if r.IntN(3) == 0 {
		if err := s.Cancel(s.t.Context(), tenant, s.run.ID); err != nil {
			s.t.Error(err)
		}
		return
	}
	_ = s.Resume(s.t.Context(), tenant, s.run.ID)
	if r.IntN(2) == 0 {
		s.sandbox.SetTXT(d.Host, d.TXT)
	}
}
