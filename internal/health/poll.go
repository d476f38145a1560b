package health

import (
	"context"
	"sync"
	"time"
)

// Poll calls a slow function in the background, once at a time for all callers that want its
// answer, and keeps the last answer. Its method may be called from any goroutine.
type Poll[T any] struct {
	Ask      func(ctx context.Context) T
	Within   time.Duration // after which the ctx of Ask ends
	Patience time.Duration // for which callers wait, from the start of Ask
	// Fresh returns for how long an answer is valid that took so long; nil: no answer is
	// valid for a second call.
	Fresh func(answer T, took time.Duration) time.Duration

	mu      sync.Mutex
	started time.Time     // the last Ask
	ended   chan struct{} // closed at the end of the Ask in progress; nil: there is none
	next    time.Time     // Ask is not called again before
	answer  T
}

// Get returns the last answer, after calling Ask if it is no longer valid. If Ask does not
// return in time, or ctx ends, since is the start of that Ask, and the answer is the previous
// one.
func (p *Poll[T]) Get(ctx context.Context) (answer T, since time.Time) {
	since, ended := p.start()
	if ended != nil {
		ctx, cancel := context.WithDeadline(ctx, since.Add(p.Patience))
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

// start calls Ask if the last answer is no longer valid. ended is nil if it is valid.
func (p *Poll[T]) start() (since time.Time, ended <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended == nil && time.Now().Before(p.next) {
		return time.Time{}, nil
	}
	if p.ended == nil {
		p.started = time.Now()
		p.ended = make(chan struct{})
		go p.run()
	}
	return p.started, p.ended
}

// run calls Ask. While an Ask continues after the end of its context, no other is started.
func (p *Poll[T]) run() {
	ctx, cancel := context.WithTimeout(context.Background(), p.Within)
	defer cancel()
	answer := p.Ask(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answer = answer
	p.next = time.Now()
	if p.Fresh != nil {
		p.next = p.next.Add(p.Fresh(answer, time.Since(p.started)))
	}
	close(p.ended)
	p.ended = nil
}
