package dnscheck

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

const (
	// maxRemembered bounds each cache of a Checker: a few megabytes, and more zones than are checked within longestMemory.
	maxRemembered = 10_000
	// shortestMemory and longestMemory bound the TTL that a stranger sets: 0 would have us ask for the same name servers in
	// every look, and a day would hide that a customer has moved the zone to others.
	shortestMemory = 5 * time.Second
	longestMemory  = 15 * time.Minute
)

// errAbandoned marks an error that is the caller's own (its time or its queries were up) and says nothing about what was
// looked for: whoever waits for the same must try for itself.
var errAbandoned = errors.New("given up")

// memory remembers values by name till their time is up, at most maxRemembered. No lock is held during a look.
type memory[V any] struct {
	mu    sync.Mutex
	held  map[string]remembered[V]
	looks singleflight.Group
}

type remembered[V any] struct {
	value V
	until time.Time
}

func newMemory[V any]() *memory[V] { return &memory[V]{held: make(map[string]remembered[V])} }

func (m *memory[V]) get(name string) (value V, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.held[name]
	if ok && time.Now().Before(r.until) {
		return r.value, true
	}
	delete(m.held, name)
	return value, false
}

// put remembers a value for the TTL that a stranger has set.
func (m *memory[V]) put(name string, value V, ttl time.Duration) {
	m.store(name, value, min(max(ttl, shortestMemory), longestMemory))
}

// store remembers a value for so long. Where there is no room, any other is forgotten.
func (m *memory[V]) store(name string, value V, ttl time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.held, name)
	for other := range m.held {
		if len(m.held) < maxRemembered {
			break
		}
		delete(m.held, other)
	}
	m.held[name] = remembered[V]{value: value, until: time.Now().Add(ttl)}
}

func (m *memory[V]) forget(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.held, name)
}

// find returns what is remembered, or looks for it; of those who come at the same time one looks and the others wait for
// it, as long as their own contexts last. What look finds is remembered unless it returns an error; it must end with ctx.
func (m *memory[V]) find(ctx context.Context, name string, look func() (V, time.Duration, error)) (value V, err error) {
	for {
		if value, ok := m.get(name); ok {
			return value, nil
		}
		mine := false
		found := m.looks.DoChan(name, func() (any, error) {
			mine = true
			// Another's look may have ended since the first reading.
			if value, ok := m.get(name); ok {
				return value, nil
			}
			value, ttl, err := look()
			if err == nil {
				m.put(name, value, ttl)
			}
			return value, err
		})
		select {
		case <-ctx.Done():
			return value, errors.Join(errAbandoned, ctx.Err())
		case r := <-found:
			if mine || !errors.Is(r.Err, errAbandoned) {
				return r.Val.(V), r.Err
			}
		}
	}
}
