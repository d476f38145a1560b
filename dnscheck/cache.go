package dnscheck

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"
)

const (
	// maxCached bounds each cache of a Checker: a few megabytes, and more zones than are
	// checked within longestTTL.
	maxCached = 10_000
	// shortestTTL and longestTTL bound the TTLs of foreign zones: what a proof has found must not
	// expire before its proofTime is over, or it would query the same name servers again, and a day
	// would hide that a zone has moved.
	shortestTTL = 15 * time.Second
	longestTTL  = 15 * time.Minute
)

// errAbandoned marks an error of the caller's own: its time or its queries were used up.
// Another caller that waits for the same load must try for itself.
var errAbandoned = errors.New("given up")

// cache holds at most maxCached values until their TTL has passed. Concurrent loads of one
// name are one.
type cache[V any] struct {
	mu      sync.Mutex // never held during a load
	entries map[string]cacheEntry[V]
	loads   singleflight.Group
}

type cacheEntry[V any] struct {
	value   V
	expires time.Time
}

func newCache[V any]() *cache[V] { return &cache[V]{entries: make(map[string]cacheEntry[V])} }

// load returns the cached value, or calls fetch, and caches its value unless it returns an
// error. fetch must end with ctx, and has returned when the load that called it returns.
func (c *cache[V]) load(ctx context.Context, name string, fetch func() (V, time.Duration, error)) (value V, err error) {
	for {
		if value, ok := c.get(name); ok {
			return value, nil
		}
		var own atomic.Bool
		loaded := c.loads.DoChan(name, func() (any, error) {
			own.Store(true)
			if ctx.Err() != nil { // load may have returned
				return *new(V), errAbandoned
			}
			// Another load may have ended since get.
			if value, ok := c.get(name); ok {
				return value, nil
			}
			value, ttl, err := fetch()
			if err == nil {
				c.put(name, value, ttl)
			}
			return value, err
		})
		select {
		case <-ctx.Done():
			if own.Load() {
				<-loaded
			}
			return value, errors.Join(errAbandoned, ctx.Err())
		case r := <-loaded:
			if own.Load() || !errors.Is(r.Err, errAbandoned) {
				return r.Val.(V), r.Err
			}
		}
	}
}

func (c *cache[V]) get(name string) (value V, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.entries[name]
	if ok && time.Now().Before(e.expires) {
		return e.value, true
	}
	delete(c.entries, name)
	return value, false
}

// put caches a value for its TTL. A full cache loses any other entry.
func (c *cache[V]) put(name string, value V, ttl time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.entries, name)
	for other := range c.entries {
		if len(c.entries) < maxCached {
			break
		}
		delete(c.entries, other)
	}
	expires := time.Now().Add(min(max(ttl, shortestTTL), longestTTL))
	c.entries[name] = cacheEntry[V]{value: value, expires: expires}
}

func (c *cache[V]) forget(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.entries, name)
}
