package sweep_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"orgops/internal/redisconn"
	"orgops/internal/redistest"
	"orgops/internal/sweep"
)

func TestRememberReplacesOnlyWhatIsKnown(t *testing.T) {
	s := sweep.NewStore(redistest.New(t), "default")
	remember := func(former, value string, want bool) {
		t.Helper()
		if ok, err := s.SetDomain(t.Context(), sweep.DomainWrite{ID: "ord_1", Former: []byte(former), Value: []byte(value),
			Watched: true, Tick: 7, Counted: []string{"present"}}); err != nil || ok != want {
			t.Errorf("%q by %q: %v, %v, want %v", former, value, ok, err, want)
		}
	}
	remember("x", "a", false)
	remember("", "a", true)
	remember("", "b", false)
	remember("a", "b", true)
	if value, err := s.Domain(t.Context(), "ord_1"); err != nil || string(value) != "b" {
		t.Errorf("remembered %q, %v", value, err)
	}
	if tally, err := s.Counts(t.Context(), 7); err != nil || tally["present"] != 2 {
		t.Errorf("tally %v, %v: want what was written, and nothing else", tally, err)
	}
	remember("b", "", true)
	if value, err := s.Domain(t.Context(), "ord_1"); err != nil || value != nil {
		t.Errorf("remembered %q, %v after it was forgotten", value, err)
	}
	if ids, err := s.WatchedDomains(t.Context()); err != nil || len(ids) > 0 {
		t.Errorf("%q are attended (%v) and forgotten", ids, err)
	}
}

// TestMemories reads many states at once: more than a page.
func TestMemories(t *testing.T) {
	s := sweep.NewStore(redistest.New(t), "default")
	var ids []string
	want := map[string]int{}
	for i := range 1100 {
		id := fmt.Sprint("ord_", i)
		ids = append(ids, id)
		if i%7 == 0 {
			continue // no state
		}
		want[id] = 1 + i%5
		if i < 60 {
			want[id] = 50_000
		}
		if ok, err := s.SetDomain(t.Context(), sweep.DomainWrite{ID: id, Value: bytes.Repeat([]byte("x"), want[id]),
			Tick: 1}); err != nil || !ok {
			t.Fatal(ok, err)
		}
	}
	states, err := s.Domains(t.Context(), ids)
	if err != nil || len(states) != len(ids) {
		t.Fatalf("%d states, %v", len(states), err)
	}
	for i, state := range states {
		if len(state) != want[ids[i]] || (state == nil) != (want[ids[i]] == 0) {
			t.Errorf("state of %s has %d bytes, want %d", ids[i], len(state), want[ids[i]])
		}
	}
}

// TestReadsEnd checks that reads end with their context, even if the client's commands ignore
// it.
func TestReadsEnd(t *testing.T) {
	rdb, err := redisconn.ForServer(redisconn.Config{URL: redistest.URL(t), AllowURLPassword: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rdb.Close() })
	s := sweep.NewStore(rdb, "default")
	for i := range 10 {
		if ok, err := s.SetDomain(t.Context(), sweep.DomainWrite{ID: fmt.Sprint("ord_", i), Value: []byte("1"), Watched: true,
			Tick: 1}); err != nil || !ok {
			t.Fatal(ok, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if ids, err := s.WatchedDomains(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%q after the end of the context, %v", ids, err)
	}
	if _, err := s.Domains(ctx, []string{"ord_1"}); !errors.Is(err, context.Canceled) {
		t.Errorf("states after the end of the context: %v", err)
	}
}
