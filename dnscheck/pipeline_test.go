package dnscheck_test

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"orgops/dnscheck"
)

// overTCP returns a checker with one in-memory resolver over TCP. The handler receives the
// number of each connection.
func overTCP(t *testing.T, handle onStream) (*dnscheck.Checker, *atomic.Int64) {
	t.Helper()
	var count atomic.Int64
	dial := memory{tcp: func(conn net.Conn) { handle(conn, int(count.Add(1))) }}.dial(t)
	resolvers := anyResolver(1)
	resolvers[0].Transport = "tcp"
	c, err := dnscheck.NewOver(dnscheck.Config{Resolvers: resolvers}, dial)
	if err != nil {
		t.Fatal(err)
	}
	return c, &count
}

func TestIdleConnectionIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		left := make(chan time.Time, 100)
		c, count := overTCP(t, func(conn net.Conn, n int) {
			answering(yes)(conn, n)
			left <- time.Now()
		})
		defer c.Close()
		began := time.Now()
		for range 5 { // each query is within the idle timeout
			want(t, look(t, c), dnscheck.Present, dnscheck.ReasonFound)
			time.Sleep(9 * time.Second)
		}
		if n := count.Load(); n != 1 {
			t.Errorf("%d connections, want 1", n)
		}
		if idle := (<-left).Sub(began); idle != 46*time.Second {
			t.Errorf("closed after %s, want 10 s after the last query at 36 s", idle)
		}
		want(t, look(t, c), dnscheck.Present, dnscheck.ReasonFound)
		if n := count.Load(); n != 2 {
			t.Errorf("%d connections, want 2", n)
		}
	})
}

// TestDeadConnectionIsReplaced has a connection die without notice, as if a firewall dropped
// its state.
func TestDeadConnectionIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, count := overTCP(t, func(conn net.Conn, n int) {
			if n > 1 {
				answering(yes)(conn, n)
				return
			}
			if query, err := readFrame(conn); err == nil {
				yes.tcp(query, conn)
			}
			unanswered(conn)
		})
		defer c.Close()
		want(t, look(t, c), dnscheck.Present, dnscheck.ReasonFound)
		v := look(t, c)
		want(t, v, dnscheck.Unknown, dnscheck.ReasonTimeout)
		if took := v.Observations[0].Took; took != dnscheck.DefaultTimeout {
			t.Errorf("took %s, want %s", took, dnscheck.DefaultTimeout)
		}
		want(t, look(t, c), dnscheck.Present, dnscheck.ReasonFound)
		if n := count.Load(); n != 2 {
			t.Errorf("%d connections, want 2", n)
		}
	})
}

// TestUnansweredQueryHoldsUpNoOther checks that an unanswered query affects neither concurrent
// queries nor their connection.
func TestUnansweredQueryHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, count := overTCP(t, func(conn net.Conn, _ int) {
			for {
				query, err := readFrame(conn)
				if err != nil {
					return
				}
				if !isFor(query, "slow.example.com") {
					yes.tcp(query, conn)
				}
			}
		})
		defer c.Close()
		done := make(chan dnscheck.Verdict)
		go func() {
			v, err := c.Check(t.Context(), "slow.example.com", token)
			if err != nil {
				t.Error(err)
			}
			done <- v
		}()
		for range 8 {
			time.Sleep(time.Second / 2)
			began := time.Now()
			want(t, look(t, c), dnscheck.Present, dnscheck.ReasonFound)
			if took := time.Since(began); took != 0 {
				t.Errorf("took %s", took)
			}
			select {
			case v := <-done:
				want(t, v, dnscheck.Unknown, dnscheck.ReasonTimeout)
			default:
			}
		}
		if n := count.Load(); n != 1 {
			t.Errorf("%d connections, want 1", n)
		}
	})
}

// TestCancelledChecksKeepTheConnection checks that canceled queries to a resolver slower than
// the quorum do not close its connection.
func TestCancelledChecksKeepTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, count := overTCP(t, func(conn net.Conn, _ int) {
			for {
				query, err := readFrame(conn)
				if err != nil {
					return
				}
				time.Sleep(50 * time.Millisecond)
				yes.tcp(query, conn)
			}
		})
		defer c.Close()
		for range 200 {
			ctx, cancel := context.WithTimeout(t.Context(), 40*time.Millisecond)
			if _, err := c.Check(ctx, host, token); err == nil {
				t.Error("not given up")
			}
			cancel()
			time.Sleep(20 * time.Millisecond)
		}
		if n := count.Load(); n != 1 {
			t.Errorf("%d connections, want 1", n)
		}
	})
}

func TestDialThatHangsEndsWithTheTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dials atomic.Int32
		resolvers := anyResolver(1)
		resolvers[0].Transport = "tcp"
		c, err := dnscheck.NewOver(dnscheck.Config{Resolvers: resolvers}, func(ctx context.Context, _, _ string) (net.Conn, error) {
			dials.Add(1)
			<-ctx.Done()
			return nil, fmt.Errorf("dial: %w", ctx.Err())
		})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		for range 2 {
			v := look(t, c)
			want(t, v, dnscheck.Unknown, dnscheck.ReasonTimeout)
			if took := v.Observations[0].Took; took != dnscheck.DefaultTimeout {
				t.Errorf("took %s, want %s", took, dnscheck.DefaultTimeout)
			}
		}
		if got := dials.Load(); got != 2 {
			t.Errorf("%d dials, want one a look", got)
		}
	})
}

// TestServerThatReadsNothing checks that the timeout ends a blocked write and closes the
// connection.
func TestServerThatReadsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		c, count := overTCP(t, func(conn net.Conn, n int) {
			if n > 1 {
				answering(yes)(conn, n)
				return
			}
			<-gate
		})
		defer c.Close()
		defer close(gate)
		want(t, look(t, c), dnscheck.Unknown, dnscheck.ReasonTimeout)
		want(t, look(t, c), dnscheck.Present, dnscheck.ReasonFound)
		if n := count.Load(); n != 2 {
			t.Errorf("%d connections, want 2", n)
		}
	})
}
