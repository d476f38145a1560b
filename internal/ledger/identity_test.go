package ledger_test

import (
	"net"
	"testing"

	"orgops/internal/ledger"
	"orgops/internal/redistest"
)

// TestIdentity restarts a Redis, and makes its replica the master: each has another
// identity afterwards, and the same one before.
func TestIdentity(t *testing.T) {
	server := redistest.Start(t)
	seg := ledger.Segment{Run: "a", Incarnation: "aaaaaaaaaaaaaaaa"}
	l := ledger.New(server.Client())
	identity := func() string {
		t.Helper()
		id, err := l.Identity(t.Context(), seg)
		if err != nil || id == "" {
			t.Fatalf("identity %q, %v", id, err)
		}
		return id
	}
	first := identity()
	if again := identity(); again != first {
		t.Errorf("identity %q, then %q", first, again)
	}
	server.Kill()
	server.Restart()
	second := identity()
	if second == first {
		t.Error("a restart does not change the identity")
	}
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
	if id := identity(); id == second {
		t.Error("a failover does not change the identity")
	}
}

// TestNoIdentity asks a Redis that does not report its identity.
func TestNoIdentity(t *testing.T) {
	redistest.Mini(t)
	if id, err := ledger.New(redistest.New(t)).Identity(t.Context(), ledger.Segment{Run: "a", Incarnation: "aaaaaaaaaaaaaaaa"}); id != "" || err != nil {
		t.Errorf("identity %q, %v", id, err)
	}
}
