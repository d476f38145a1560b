package redistest_test

import (
	"fmt"
	"testing"

	"orgops/internal/redisconn"
	"orgops/internal/redistest"
)

func TestEachTestHasItsOwnDatabase(t *testing.T) {
	first := redistest.New(t)
	if err := first.Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if got := redistest.New(t).Get(t.Context(), "k").Val(); got != "v" {
		t.Errorf("a second client of the same test reads %q, want %q", got, "v")
	}
	byURL, err := redisconn.Open(redisconn.Config{URL: redistest.URL(t), AllowURLPassword: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = byURL.Close() }()
	if got := byURL.Get(t.Context(), "k").Val(); got != "v" {
		t.Errorf("a client by URL reads %q, want %q", got, "v")
	}
	t.Run("a subtest", func(t *testing.T) {
		if keys := redistest.Keys(t, "*"); len(keys) > 0 {
			t.Errorf("its database has %q, want nothing", keys)
		}
	})
}

// TestKeysAreOfAllNodes: a hundred keys are on every node of a Cluster.
func TestKeysAreOfAllNodes(t *testing.T) {
	rdb := redistest.New(t)
	for i := range 100 {
		if err := rdb.Set(t.Context(), fmt.Sprintf("k%d", i), "v", 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(redistest.Keys(t, "k*")); n != 100 {
		t.Errorf("%d keys are listed, want 100", n)
	}
	if keys := redistest.Keys(t, "*"); len(keys) != 100 {
		t.Errorf("%q are all keys, want those of the test alone", keys)
	}
}

func TestMiniIsTheServerOfTheTest(t *testing.T) {
	m := redistest.Mini(t)
	if err := redistest.New(t).Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if got, err := m.Get("k"); err != nil || got != "v" {
		t.Errorf("miniredis has %q, %v", got, err)
	}
}
