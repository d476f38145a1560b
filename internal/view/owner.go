package view

import "sync"

// ownership remembers the results of ofRows.
type ownership struct {
	mu    sync.Mutex
	known map[string]bool
}

// mostKnown bounds what an ownership remembers; beyond it, it begins again.
const mostKnown = 10_000

func (o *ownership) get(key string) (is, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	is, ok = o.known[key]
	return is, ok
}

func (o *ownership) put(key string, is bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.known == nil || len(o.known) >= mostKnown {
		o.known = map[string]bool{}
	}
	o.known[key] = is
}
