package console_test

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"orgops/internal/console"
)

func addr(n int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, byte(n >> 8), byte(n)}) }

func wrong() bool { return false }

// TestAttemptsAfterAWrongOne checks that after a failed attempt the next one of the same
// address waits for a second, and that one of another address does not.
func TestAttemptsAfterAWrongOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := console.NewAttempts()
		start := time.Now()
		try := func(from netip.Addr, want time.Duration) {
			t.Helper()
			if ok, err := a.Try(t.Context(), from, wrong); ok || err != nil {
				t.Errorf("%v, %v; want a wrong one", ok, err)
			}
			if at := time.Since(start); at != want {
				t.Errorf("an attempt from %s was compared after %s, want %s", from, at, want)
			}
		}
		try(addr(1), 0)
		try(addr(2), 0)
		try(netip.MustParseAddr("2001:db8::1"), 0)
		try(addr(1), console.AfterFailure)
		try(addr(2), console.AfterFailure)
		try(netip.MustParseAddr("2001:db8::2"), console.AfterFailure) // of the same customer
		if ok, err := a.Try(t.Context(), addr(3), func() bool { return true }); !ok || err != nil {
			t.Errorf("%v, %v; want a right one", ok, err)
		}
		time.Sleep(console.AfterFailure)
		synctest.Wait()
		if n := a.Under(); n != 0 {
			t.Errorf("%d addresses are remembered, want none", n)
		}
	})
}

// TestAttemptsAreBounded checks that of the attempts from one address one is compared at a
// time, up to MaxWaiting wait, and the others are refused.
func TestAttemptsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := console.NewAttempts()
		var compared, refused, atOnce atomic.Int64
		var all sync.WaitGroup
		for range 3 * console.MaxWaiting {
			all.Go(func() {
				_, err := a.Try(t.Context(), addr(1), func() bool {
					if atOnce.Add(1) > 1 {
						t.Error("two of one address are compared at a time")
					}
					time.Sleep(100 * time.Millisecond)
					atOnce.Add(-1)
					compared.Add(1)
					return false
				})
				if errors.Is(err, console.ErrTooMany) {
					refused.Add(1)
				}
			})
		}
		all.Wait()
		if compared.Load() != console.MaxWaiting || refused.Load() != 2*console.MaxWaiting {
			t.Errorf("%d compared, %d refused; want %d and %d", compared.Load(), refused.Load(), console.MaxWaiting, 2*console.MaxWaiting)
		}
	})
}

// TestAttemptsOfManyAddresses checks that the number of addresses and the wait are bounded.
func TestAttemptsOfManyAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := console.NewAttempts()
		var refused atomic.Int64
		var all sync.WaitGroup
		for n := range console.MaxAddresses {
			all.Go(func() {
				_, err := a.Try(t.Context(), addr(n), func() bool { time.Sleep(time.Second); return false })
				if errors.Is(err, console.ErrTooMany) {
					refused.Add(1)
				}
			})
		}
		synctest.Wait()
		start := time.Now()
		if _, err := a.Try(t.Context(), addr(console.MaxAddresses), wrong); !errors.Is(err, console.ErrTooMany) || time.Since(start) > 0 {
			t.Errorf("one more address: error %v after %s, want ErrTooMany at once", err, time.Since(start))
		}
		all.Wait()
		if waited := time.Since(start); waited > 12*time.Second || refused.Load() == 0 {
			t.Errorf("waited %s, %d refused; want all answered soon after 10 s", waited, refused.Load())
		}
		time.Sleep(console.AfterFailure)
		synctest.Wait()
		if n := a.Under(); n != 0 {
			t.Errorf("%d addresses are remembered, want none", n)
		}
	})
}

// TestAttemptsOfAClosedConnection checks that an attempt whose connection is closed is not
// compared, and that a failed comparison delays its address all the same.
func TestAttemptsOfAClosedConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := console.NewAttempts()
		ctx, cancel := context.WithCancel(t.Context())
		if ok, err := a.Try(ctx, addr(1), func() bool { cancel(); return false }); ok || err != nil {
			t.Errorf("%v, %v; want a wrong one", ok, err)
		}
		if _, err := a.Try(ctx, addr(1), func() bool { t.Error("compared"); return true }); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v, want context.Canceled", err)
		}
		start := time.Now()
		if _, err := a.Try(t.Context(), addr(1), wrong); err != nil || time.Since(start) != console.AfterFailure {
			t.Errorf("error %v after %s, want none after a second", err, time.Since(start))
		}
		time.Sleep(console.AfterFailure)
	})
}
