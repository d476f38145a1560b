package redistest_test

import (
	"os"
	"testing"

	"orgops/internal/redistest"
)

// TestServerIsKilledAndComesBack: with what it had acknowledged, save for what
// its file has lost.
func TestServerIsKilledAndComesBack(t *testing.T) {
	s := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always", "--auto-aof-rewrite-percentage", "0")
	c := s.Client()
	set := func(key string) (size int64) {
		t.Helper()
		if err := c.Set(t.Context(), key, "v", 0).Err(); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(s.AOF())
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	holds := func(want int64) {
		t.Helper()
		if n, err := c.DBSize(t.Context()).Result(); err != nil || n != want {
			t.Errorf("%d keys, %v: want %d", n, err, want)
		}
	}
	before := set("a")
	set("b")
	s.Kill()
	if err := c.Ping(t.Context()).Err(); err == nil {
		t.Error("it answers after it was killed")
	}
	s.Restart()
	holds(2)
	s.Kill()
	if err := os.Truncate(s.AOF(), before+5); err != nil { // amid the second command
		t.Fatal(err)
	}
	s.Restart()
	holds(1)
}
