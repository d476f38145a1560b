package ledger_test

import (
	"context"
	"testing"
	"time"

	"orgops/internal/ledger"
)

// TestWake wakes the subscribers of every process, and no longer than they want.
func TestWake(t *testing.T) {
	w := newWorker(t)
	ctx, cancel := context.WithCancel(t.Context())
	woken := make(chan ledger.Tenant, 1000)
	ended := make(chan struct{}, 2)
	for range 2 {
		go func() {
			w.Wakes(ctx, func(tenant ledger.Tenant) { woken <- tenant })
			ended <- struct{}{}
		}()
	}
	// No event reports that both have subscribed.
	seen, late := map[ledger.Tenant]int{}, time.After(time.Minute)
	for n := 0; seen["acme"] < 3 || seen["other"] < 3; n++ {
		want := ledger.Tenant("acme")
		if n%2 == 1 {
			want = "other"
		}
		if err := w.Wake(ctx, want); err != nil {
			t.Fatal(err)
		}
		select {
		case got := <-woken:
			seen[got]++
		case <-time.After(time.Millisecond):
		case <-late:
			t.Fatalf("woken %v", seen)
		}
	}
	cancel()
	<-ended
	<-ended
}
