package ledger_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/internal/ledger"
	"orgops/internal/redistest"
)

// TestIdentity restarts a Redis, and makes its replica the master: each has another
// identity afterwards, and the same one before. Only the first has forgotten nothing.
func TestIdentity(t *testing.T) {
	server := redistest.Start(t)
	l := ledger.New(server.Client())
	if err := l.CheckSchema(t.Context()); err != nil {
		t.Fatal(err)
	}
	seg := ledger.Segment{Run: "a", Incarnation: "aaaaaaaaaaaaaaaa"}
	seen := map[ledger.Server]time.Time{}
	read := func() (ledger.Server, time.Time) {
		t.Helper()
		s, err := l.Server(t.Context(), seg)
		if err != nil || s == "" {
			t.Fatalf("server %q, %v", s, err)
		}
		at, err := l.FirstSeen(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		return s, at
	}
	identify := func() {
		t.Helper()
		s, at := read()
		if at.IsZero() != (len(seen) == 0) {
			t.Errorf("server %d first seen at %v", len(seen), at)
		}
		if again, then := read(); again != s || !then.Equal(at) {
			t.Errorf("server %s first seen at %v, then %s at %v", s, at, again, then)
		}
		seen[s] = at
	}
	identify()
	server.Kill()
	server.Restart()
	identify()
	host, port, err := net.SplitHostPort(redistest.Start(t).Addr)
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Client().Do(t.Context(), "REPLICAOF", host, port).Err(); err != nil {
		t.Fatal(err)
	}
	if err := server.Client().Do(t.Context(), "REPLICAOF", "NO", "ONE").Err(); err != nil {
		t.Fatal(err)
	}
	identify()
	if len(seen) != 3 {
		t.Errorf("servers %v, want another one after a restart and after a failover", seen)
	}
}

// TestServerIsNotFirst has another process store the schema of an empty Redis in the middle of
// CheckSchema: Redis may have forgotten writes since.
func TestServerIsNotFirst(t *testing.T) {
	server := redistest.Start(t)
	rdb := server.Client()
	rdb.AddHook(beforeSet(func() {
		if err := ledger.New(server.Client()).CheckSchema(t.Context()); err != nil {
			t.Error(err)
		}
		server.Client().Del(t.Context(), "orgops:v2:servers")
	}))
	l := ledger.New(rdb)
	if err := l.CheckSchema(t.Context()); err != nil {
		t.Fatal(err)
	}
	s, err := l.Server(t.Context(), ledger.Segment{Run: "a", Incarnation: "aaaaaaaaaaaaaaaa"})
	if err != nil {
		t.Fatal(err)
	}
	if at, err := l.FirstSeen(t.Context(), s); err != nil || at.IsZero() {
		t.Errorf("first seen at %v, %v", at, err)
	}
}

// beforeSet is a hook of a client that calls the function before each SET.
type beforeSet func()

func (f beforeSet) DialHook(next redis.DialHook) redis.DialHook { return next }

func (f beforeSet) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "set" {
			f()
		}
		return next(ctx, cmd)
	}
}

func (f beforeSet) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// TestNoIdentity uses a Redis that does not report its identity.
func TestNoIdentity(t *testing.T) {
	redistest.Mini(t)
	l := ledger.New(redistest.New(t))
	if err := l.CheckSchema(t.Context()); err != nil {
		t.Fatal(err)
	}
	s, err := l.Server(t.Context(), ledger.Segment{Run: "a", Incarnation: "aaaaaaaaaaaaaaaa"})
	if err != nil || s != "" {
		t.Errorf("%q, %v", s, err)
	}
}
