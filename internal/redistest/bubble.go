package redistest

import (
	"os"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"orgops/internal/redisconn"
)

// InBubble runs a test in a bubble of testing/synctest, with a miniredis inside of it: waits of
// the test take no time. On a real Redis it runs the test as it is, in real time.
//
// New returns clients inside of the bubble, where the Redis has no URL. Time stops while a
// goroutine of the bubble waits for a socket: a server is started by [Outside.Do], and its
// clients in the bubble must keep no connections between requests.
func InBubble(t *testing.T, test func(t *testing.T, out *Outside)) {
	t.Helper()
	if os.Getenv(EnvURL) != "" {
		test(t, nil)
		return
	}
	collectLess()
	out := newOutside()
	defer out.end()
	synctest.Test(t, func(t *testing.T) {
		databases.Store(t, miniInBubble(t))
		t.Cleanup(func() { databases.Delete(t) })
		test(t, out)
	})
}

func miniInBubble(t *testing.T) *database {
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true) // it goes through the keys only if time has passed
	t.Cleanup(m.Close)
	o := options(bubbleAddr)
	o.PoolSize = bubblePool
	o.MaxIdleConns = 20
	forServer := func() (redis.UniversalClient, error) {
		c, err := redisconn.ForServer(redisconn.Config{URL: "redis://" + bubbleAddr, PoolSize: bubblePool})
		if err == nil {
			c.AddHook(piping{m})
		}
		return c, err
	}
	return &database{open: piped(m, o), forServer: forServer, mini: m, follow: func() {}}
}

const (
	// bubbleAddr is the address of the miniredis inside of a bubble, which listens nowhere.
	bubbleAddr = "bubble.invalid:6379"
	// bubblePool is more connections than any client needs: waits for a connection of the pool
	// use timers that clients of all bubbles share.
	bubblePool = 1 << 12
)

// Outside makes calls outside of a bubble, whose time stops meanwhile. nil makes them in
// place.
type Outside struct {
	calls chan func()
	// idle are channels for the ends of calls, made outside too: a bubble does not take a wait
	// for one as idleness.
	idle    chan chan struct{}
	running sync.WaitGroup
}

// outsideCalls is how many calls are outside at a time.
const outsideCalls = 64

func newOutside() *Outside {
	o := &Outside{calls: make(chan func()), idle: make(chan chan struct{}, outsideCalls)}
	for range outsideCalls {
		o.idle <- make(chan struct{}, 1)
	}
	o.running.Go(func() {
		for call := range o.calls {
			o.running.Go(call)
		}
	})
	return o
}

// Do calls f outside, and returns when it has returned. f must use nothing of the bubble that
// it could wait for, such as a channel or a context that ends.
func (o *Outside) Do(f func()) {
	if o == nil {
		f()
		return
	}
	done := <-o.idle
	o.calls <- func() {
		defer func() { done <- struct{}{} }()
		f()
	}
	<-done
	o.idle <- done
}

func (o *Outside) end() {
	close(o.calls)
	o.running.Wait()
}
