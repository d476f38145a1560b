package kinds

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/semaphore"

	"orgops/dnscheck"
	"orgops/internal/engine"
)

// placeAgain is when a check is due again that found no place: checks of zones without an
// answer take some 8 s each.
const placeAgain = 8 * time.Second

func newPlaces(n int) *semaphore.Weighted {
	return semaphore.NewWeighted(int64(cmp.Or(n, math.MaxInt)))
}

// query queries DNS for the token. A row is left open if too many checks are in progress,
// or too many of zones whose last check had no answer, as its own.
func (v *verification) query(ctx context.Context) (dnscheck.Verdict, error) {
	if v.isSlow() {
		if !v.slow.TryAcquire(1) {
			return dnscheck.Verdict{}, v.noPlace()
		}
		defer v.slow.Release(1)
	}
	if !v.places.TryAcquire(1) {
		return dnscheck.Verdict{}, v.noPlace()
	}
	defer v.places.Release(1)
	return v.cfg.DNS.Look(ctx, v.state.Record.Host, v.state.Record.TXT)
}

// noPlace leaves a row open whose check found no place. The reason stays that of its last
// check.
func (v *verification) noPlace() error {
	after := placeAgain/2 + rand.N(placeAgain)
	if v.state.Evidence == nil {
		return v.keep(engine.Later("too many DNS checks are in progress", after))
	}
	return v.keep(engine.NotYet(v.state.Evidence.Sentence, after))
}

// isSlow reports whether the last check of the row had no answer in time.
func (v *verification) isSlow() bool {
	if v.state.Evidence == nil {
		return false
	}
	reason := dnscheck.Reason(v.state.Evidence.Reason)
	return reason == dnscheck.ReasonTimeout || reason == dnscheck.ReasonUnreachable
}
