package ledger_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/internal/ledger"
	"orgops/internal/redisconn"
	"orgops/internal/redistest"
)

// TestWake wakes the subscribers of every process, and no longer than they want.
func TestWake(t *testing.T) {
	w := newWorker(t)
	ctx, cancel := context.WithCancel(t.Context())
	woken := make(chan ledger.Tenant, 1000)
	ended := make(chan struct{}, 2)
	for range 2 {
		rdb := redistest.Open(t)
		go func() {
			redisconn.Subscribe(ctx, rdb, ledger.WakeChannel, func(tenant string) { woken <- ledger.Tenant(tenant) })
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

// TestWakeOfOperations checks that a commit and a resume wake the dispatchers.
func TestWakeOfOperations(t *testing.T) {
	w := newWorker(t)
	sub := redistest.Open(t).Subscribe(t.Context(), ledger.WakeChannel)
	defer func() { _ = sub.Close() }()
	if _, err := sub.Receive(t.Context()); err != nil { // has subscribed
		t.Fatal(err)
	}
	for name, do := range map[string]func(ledger.RunID) error{
		"commit": func(ledger.RunID) error { w.submit("other", 1); return nil },
		"resume": func(id ledger.RunID) error { return w.Resume(t.Context(), tenant, id) },
	} {
		id := ledger.RunID(name)
		w.submit(id, 1)
		receive(t, sub, "the commit of "+name)
		if err := do(id); err != nil {
			t.Fatal(err)
		}
		receive(t, sub, name)
	}
}

// receive returns the next message of a subscription.
// receive checks that the tenant is woken. Other tenants are other tests': all databases
// of a Redis share a channel.
func receive(t *testing.T, sub *redis.PubSub, by string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		m, err := sub.ReceiveMessage(ctx)
		if err != nil {
			t.Fatalf("%s woke no dispatcher: %v", by, err)
		}
		if m.Payload == string(tenant) {
			return
		}
	}
}
