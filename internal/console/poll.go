package console

import (
	"context"
	"sync"
	"time"
)

// poll asks a slow question in the background, once at a time for all who want the
// answer, and keeps the last answer. Its methods may be called from any goroutine.
type poll[T any] struct {
	ask      func(ctx context.Context) T
	within   time.Duration // when the ctx of ask ends
	patience time.Duration // how long callers wait, from the start of ask
	// fresh is for how long an answer stands that took so long; nil: not at all.
	fresh func(answer T, took time.Duration) time.Duration

	mu     sync.Mutex
	asked  time.Time     // the start of the last ask
	ended  chan struct{} // closed at the end of the ask under way; nil: there is none
	next   time.Time     // ask is not called again before
	answer T
}

// get returns the last answer, after asking if it no longer stands. If the answer does not
// come in time, or ctx ends, since is when that ask began, and the answer is the one
// before.
func (p *poll[T]) get(ctx context.Context) (answer T, since time.Time) {
	since, ended := p.begin()
	if ended != nil {
		ctx, cancel := context.WithDeadline(ctx, since.Add(p.patience))
		defer cancel()
		select {
		case <-ended:
			since = time.Time{}
		case <-ctx.Done():
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.answer, since
}

// begin asks if the last answer no longer stands. ended is nil if it does.
func (p *poll[T]) begin() (since time.Time, ended <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended == nil && time.Now().Before(p.next) {
		return time.Time{}, nil
	}
	if p.ended == nil {
		p.asked, p.ended = time.Now(), make(chan struct{})
		go p.run()
	}
	return p.asked, p.ended
}

// run asks. An ask that goes on after its context is left to itself, and no other begun.
func (p *poll[T]) run() {
	ctx, cancel := context.WithTimeout(context.Background(), p.within)
	defer cancel()
	answer := p.ask(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answer, p.next = answer, time.Now()
	if p.fresh != nil {
		p.next = p.next.Add(p.fresh(answer, time.Since(p.asked)))
	}
	close(p.ended)
	p.ended = nil
}
