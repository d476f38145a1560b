package ops

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

const (
	// checkTime bounds all checks of one look, so that its answer comes within
	// readyTimeout.
	checkTime = readyTimeout - 500*time.Millisecond
	// readyFor is for how long a look stands: orchestrators, load balancers and people ask at
	// the same time.
	readyFor = 2 * time.Second
)

// Probe is how one thing is looked at that the worker needs.
type Probe struct {
	// Name is a Check's.
	Name string
	// Look finds out. What it says after the end of ctx is not heard.
	Look func(ctx context.Context) Finding
}

// Finding is what a Probe finds.
type Finding struct {
	// Err says what is wrong and what to do, in words for an operator; nil if
	// nothing is.
	Err error
	// Note says what an operator should know though it works; empty: nothing.
	Note string
}

// Readiness looks at everything that the worker needs, all of it side by side.
// Whoever asks within two seconds of another hears the same. It may be used by any
// number of goroutines.
type Readiness struct {
	probes []*lookout

	mu     sync.Mutex
	checks []Check
	at     time.Time     // checks are of then
	flight chan struct{} // closed when the look under way is over; nil: none is
}

// lookout is a probe, and since when its look is under way.
type lookout struct {
	Probe
	mu    sync.Mutex
	since time.Time // zero: none is
}

// NewReadiness looks by these probes, and tells of them in this order.
func NewReadiness(probes ...Probe) *Readiness {
	r := new(Readiness)
	for _, p := range probes {
		r.probes = append(r.probes, &lookout{Probe: p})
	}
	return r
}

// Checks tells how things are: a check that has not answered within two and a half
// seconds is told as that, and is not begun anew before it has. The end of ctx
// gives what was known before.
func (r *Readiness) Checks(ctx context.Context) []Check {
	r.mu.Lock()
	if !r.at.IsZero() && time.Since(r.at) < readyFor {
		defer r.mu.Unlock()
		return slices.Clone(r.checks)
	}
	if r.flight == nil {
		r.flight = make(chan struct{})
		// Others wait for it too, so it does not end with whoever came first.
		go r.look(context.WithoutCancel(ctx), r.flight)
	}
	flight := r.flight
	r.mu.Unlock()
	select {
	case <-flight:
	case <-ctx.Done():
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.checks == nil {
		return []Check{{Name: "readiness", Err: fmt.Errorf("no check has finished yet: %w", context.Cause(ctx))}}
	}
	return slices.Clone(r.checks)
}

func (r *Readiness) look(ctx context.Context, flight chan struct{}) {
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	checks := make([]Check, len(r.probes))
	var all sync.WaitGroup
	for i, p := range r.probes {
		all.Go(func() { checks[i] = p.check(ctx) })
	}
	all.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.checks, r.at, r.flight = checks, time.Now(), nil
	close(flight)
}

// check looks, or waits no longer than ctx. A look that goes on after that is left to
// itself, and no other begun.
func (l *lookout) check(ctx context.Context) Check {
	if since := l.begin(); !since.IsZero() {
		return l.unanswered(since)
	}
	began, found := time.Now(), make(chan Finding, 1)
	go func() {
		defer l.end()
		found <- l.Look(ctx)
	}()
	select {
	case f := <-found:
		if f.Err != nil && ctx.Err() != nil && errors.Is(f.Err, context.DeadlineExceeded) {
			return l.unanswered(began)
		}
		return Check{Name: l.Name, Err: f.Err, Note: f.Note}
	case <-ctx.Done():
		return l.unanswered(began)
	}
}

// begin says since when a look is under way; zero: none was, and one is now.
func (l *lookout) begin() (since time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	since = l.since
	if since.IsZero() {
		l.since = time.Now()
	}
	return since
}

func (l *lookout) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.since = time.Time{}
}

func (l *lookout) unanswered(since time.Time) Check {
	return Check{Name: l.Name, Err: fmt.Errorf("this check has not answered for %s", time.Since(since).Round(100*time.Millisecond))}
}
