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

// Places bounds how many DNS checks the rows of a tenant make at a time, so that rows that
// make none keep places of the worker. The kinds that check share one.
type Places struct{ all, slow *semaphore.Weighted }

// NewPlaces returns places for that many checks, of which slow may be of zones whose last
// check had no answer; 0: no limit.
func NewPlaces(all, slow int) *Places {
	return &Places{newPlaces(all), newPlaces(slow)}
}

func newPlaces(n int) *semaphore.Weighted {
	return semaphore.NewWeighted(int64(cmp.Or(n, math.MaxInt)))
}

// take returns a function that frees the place of a check; nil if none is free.
func (p *Places) take(slow bool) (free func()) {
	switch {
	case p == nil:
		return func() {}
	case slow && !p.slow.TryAcquire(1):
		return nil
	case !p.all.TryAcquire(1):
		if slow {
			p.slow.Release(1)
		}
		return nil
	}
	return func() {
		p.all.Release(1)
		if slow {
			p.slow.Release(1)
		}
	}
}

// query queries DNS for the token. A row is left open if too many checks are in progress,
// or too many of zones whose last check had no answer, as its own.
func (v *verification) query(ctx context.Context) (dnscheck.Verdict, error) {
	free := v.cfg.Places.take(v.isSlow())
	if free == nil {
		return dnscheck.Verdict{}, v.noPlace()
	}
	defer free()
	return v.cfg.DNS.Look(ctx, v.state.Record.Host, v.state.Record.TXT)
}

// errNoPlace leaves a row open whose check found no place.
func errNoPlace() error {
	return engine.Later("too many DNS checks are in progress", untilPlace())
}

func untilPlace() time.Duration { return placeAgain/2 + rand.N(placeAgain) }

// noPlace leaves a row open whose check found no place. The reason stays that of its last
// check.
func (v *verification) noPlace() error {
	if v.state.Evidence == nil {
		return v.keep(errNoPlace())
	}
	return v.keep(engine.NotYet(v.state.Evidence.Sentence, untilPlace()))
}

// isSlow reports whether the last check of the row had no answer in time.
func (v *verification) isSlow() bool {
	if v.state.Evidence == nil {
		return false
	}
	return isSlow(v.state.Evidence.Reason)
}

// isSlow reports whether a check with that reason had no answer in time.
func isSlow(reason string) bool {
	return reason == string(dnscheck.ReasonTimeout) || reason == string(dnscheck.ReasonUnreachable)
}
