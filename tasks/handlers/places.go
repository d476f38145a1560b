package handlers

import (
	"math/rand/v2"
	"sync"
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
// check had no answer.
func NewPlaces(all, slow int) *Places {
	return &Places{semaphore.NewWeighted(int64(all)), semaphore.NewWeighted(int64(slow))}
}

// take takes a place for the check of a zone whose last check had that reason, "" if there
// was none. free frees it, once. ok is false if too many checks are in progress, or too many
// of zones whose last check had no answer, as this one's.
func (p *Places) take(reason string) (free func(), ok bool) {
	if p == nil {
		return func() {}, true
	}
	of := []*semaphore.Weighted{p.all}
	switch dnscheck.Reason(reason) {
	case dnscheck.ReasonTimeout, dnscheck.ReasonUnreachable, dnscheck.ReasonTopLevel,
		dnscheck.ReasonPortClosed, dnscheck.ReasonPortRedirected:
		of = []*semaphore.Weighted{p.slow, p.all}
	}
	free = sync.OnceFunc(func() {
		for _, s := range of {
			s.Release(1)
		}
	})
	for i, s := range of {
		if !s.TryAcquire(1) {
			of = of[:i]
			free()
			return nil, false
		}
	}
	return free, true
}

// noPlace leaves a row open whose check has found no place.
func noPlace() *engine.Consequence {
	return engine.Later("too many DNS checks are in progress", untilPlace())
}

func untilPlace() time.Duration { return placeAgain/2 + rand.N(placeAgain) }
