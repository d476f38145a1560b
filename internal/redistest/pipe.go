package redistest

import (
	"bytes"
	"context"
	"net"
	"sync"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// piped returns a function that opens clients of a miniredis. They need no sockets, which cost
// more processor time.
func piped(m *miniredis.Miniredis, o *redis.Options) func() redis.UniversalClient {
	return func() redis.UniversalClient {
		c := redis.NewClient(o)
		c.AddHook(piping{m})
		return c
	}
}

// Dial connects to a miniredis by a pipe. A write does not wait until it is read.
func Dial(m *miniredis.Miniredis) (net.Conn, error) {
	conn, err := m.Dial()
	if err != nil {
		return nil, err
	}
	return newBuffered(conn), nil
}

// piping is a hook by which a client is connected to a miniredis through pipes.
type piping struct{ mini *miniredis.Miniredis }

func (p piping) DialHook(redis.DialHook) redis.DialHook {
	return func(context.Context, string, string) (net.Conn, error) {
		return Dial(p.mini)
	}
}

func (piping) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (piping) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// buffered is a pipe whose writes do not wait for the reader: client and server would
// otherwise wait for each other in a long pipeline.
type buffered struct {
	net.Conn
	written chan []byte
	closed  sync.Once
	done    chan struct{}
}

func newBuffered(conn net.Conn) *buffered {
	b := &buffered{Conn: conn, written: make(chan []byte, 1000), done: make(chan struct{})}
	go func() {
		for {
			select {
			case p := <-b.written:
				if _, err := b.Conn.Write(p); err != nil {
					return
				}
			case <-b.done:
				return
			}
		}
	}()
	return b
}

// Write implements [net.Conn].
func (b *buffered) Write(p []byte) (int, error) {
	select {
	case b.written <- bytes.Clone(p):
		return len(p), nil
	case <-b.done:
		return 0, net.ErrClosed
	}
}

// Close implements [net.Conn].
func (b *buffered) Close() error {
	b.closed.Do(func() { close(b.done) })
	return b.Conn.Close()
}
