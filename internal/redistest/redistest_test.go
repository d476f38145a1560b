package redistest_test

import (
	"testing"

	"github.com/redis/go-redis/v9"

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
	o, err := redis.ParseURL(redistest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	byURL := redis.NewClient(o)
	defer func() { _ = byURL.Close() }()
	if got := byURL.Get(t.Context(), "k").Val(); got != "v" {
		t.Errorf("a client by URL reads %q, want %q", got, "v")
	}
	t.Run("a subtest", func(t *testing.T) {
		if n := redistest.New(t).DBSize(t.Context()).Val(); n != 0 {
			t.Errorf("its database has %d keys, want none", n)
		}
	})
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
