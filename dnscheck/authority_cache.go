package dnscheck

import (
	"container/list"
	"context"
	"errors"
	"sync"
	"time"
)

const (
	// maxRemembered bounds each cache of a Checker: a few megabytes, and more zones than are looked at within longestMemory.
	maxRemembered = 10_000
	// shortestMemory and longestMemory bound the TTL that a stranger sets: 0 would have us ask for the same name servers in
	// every look, and a day would hide that a customer has moved the zone to others.
	shortestMemory = 5 * time.Second
	longestMemory  = 15 * time.Minute
)

// errAbandoned marks an error that is the asker's own (its time or its queries were up) and says nothing about what was
// looked for: whoever waits for the same must try for itself.
var errAbandoned = errors.New("given up")

// memory remembers what was found under a canonical name till its time is up. It holds no lock while somebody looks.
type memory[V any] struct {
	mu      sync.Mutex
	held    map[string]*list.Element // of remembered[V]
	order   *list.List               // the oldest first
	flights map[string]*flight[V]
}

type remembered[V any] struct {
	name  string
	value V
	until time.Time
}

// flight is one look that others wait for. Its value is there once done is closed.
type flight[V any] struct {
	done  chan struct{}
	value V
	err   error
}

func newMemory[V any]() *memory[V] {
	return &memory[V]{held: make(map[string]*list.Element), order: list.New(), flights: make(map[string]*flight[V])}
}

func (m *memory[V]) get(name string) (V, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.fresh(name)
}

func (m *memory[V]) fresh(name string) (V, bool) {
	element, ok := m.held[name]
	if ok {
		if r := element.Value.(remembered[V]); time.Now().Before(r.until) {
			return r.value, true
		}
		m.drop(element)
	}
	var none V
	return none, false
}

func (m *memory[V]) put(name string, value V, ttl time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.store(name, value, ttl)
}

func (m *memory[V]) store(name string, value V, ttl time.Duration) {
	if element, ok := m.held[name]; ok {
		m.drop(element)
	}
	for m.order.Len() >= maxRemembered {
		m.drop(m.order.Front())
	}
	ttl = min(max(ttl, shortestMemory), longestMemory)
	m.held[name] = m.order.PushBack(remembered[V]{name: name, value: value, until: time.Now().Add(ttl)})
}

func (m *memory[V]) forget(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if element, ok := m.held[name]; ok {
		m.drop(element)
	}
}

func (m *memory[V]) drop(element *list.Element) {
	delete(m.held, m.order.Remove(element).(remembered[V]).name)
}

// find gives what is remembered, or looks for it; of those who come at the same time one looks and the others wait for it, as
// long as their own contexts last. What look finds is remembered unless it gives an error.
func (m *memory[V]) find(ctx context.Context, name string, look func() (V, time.Duration, error)) (V, error) {
	for {
		m.mu.Lock()
		if value, ok := m.fresh(name); ok {
			m.mu.Unlock()
			return value, nil
		}
		f, under := m.flights[name]
		if !under {
			f = &flight[V]{done: make(chan struct{})}
			m.flights[name] = f
		}
		m.mu.Unlock()
		if !under {
			m.fly(f, name, look)
			return f.value, f.err
		}
		select {
		case <-f.done:
		case <-ctx.Done():
			var none V
			return none, errors.Join(errAbandoned, ctx.Err())
		}
		if !errors.Is(f.err, errAbandoned) {
			return f.value, f.err
		}
	}
}

func (m *memory[V]) fly(f *flight[V], name string, look func() (V, time.Duration, error)) {
	value, ttl, err := look()
	m.mu.Lock()
	defer m.mu.Unlock()
	f.value, f.err = value, err
	if err == nil {
		m.store(name, value, ttl)
	}
	delete(m.flights, name)
	close(f.done)
}
