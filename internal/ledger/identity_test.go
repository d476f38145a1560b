package ledger_test

import (
	"net"
	"testing"

	"orgops/internal/ledger"
	"orgops/internal/redistest"
)

// TestIdentity restarts a Redis, and makes its replica the master: each has another
// identity afterwards, and the same one before. Only at first it is that of the server
// where the segment was staged.
func TestIdentity(t *testing.T) {
	server := redistest.Start(t)
	l := ledger.New(server.Client())
	run, _, err := l.Create(t.Context(), ledger.NewRun{ID: "a", Tenant: "t", Kind: "k"})
	if err != nil {
		t.Fatal(err)
	}
	seg := ledger.Segment{Run: run.ID, Incarnation: run.Incarnation}
	complete := true
	identity := func() string {
		t.Helper()
		s, err := l.Server(t.Context(), seg)
		if err != nil || s.Identity == "" || s.Complete() != complete {
			t.Fatalf("%+v, %v, want it complete %t", s, err, complete)
		}
		return s.Identity
	}
	if _, err := l.Stage(t.Context(), run, 0, true, [][]byte{[]byte("row")}); err != nil {
		t.Fatal(err)
	}
	first := identity()
	if again := identity(); again != first {
		t.Errorf("identity %q, then %q", first, again)
	}
	server.Kill()
	server.Restart()
	complete = false
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

// TestIdentityOfLostSegment stages a segment again that Redis has lost, with the intents of its
// rows: it is not complete, whether a producer verifies its run or submits a row again.
func TestIdentityOfLostSegment(t *testing.T) {
	rdb := redistest.Start(t).Client()
	l := ledger.New(rdb)
	row := ledger.NewRun{ID: "row", Tenant: "t", Kind: "k"}
	submit := func() ledger.Run {
		run, _, err := l.SubmitRow(t.Context(), row, []byte("{}"))
		if err != nil {
			t.Fatal(err)
		}
		return run
	}
	many, _, err := l.Create(t.Context(), ledger.NewRun{ID: "many", Tenant: "t", Kind: "k"})
	if err != nil {
		t.Fatal(err)
	}
	stager, err := l.NewStager(t.Context(), many)
	if err == nil {
		err = stager.Add(t.Context(), []byte("{}"))
	}
	if err == nil {
		_, err = stager.Commit(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, run := range []ledger.Run{submit(), many} {
		seg := ledger.Segment{Run: run.ID, Incarnation: run.Incarnation}
		for _, want := range []bool{true, false} {
			if s, err := l.Server(t.Context(), seg); err != nil || s.Complete() != want {
				t.Errorf("run %s: %+v, %v, want it complete %t", run.ID, s, err, want)
			}
			rdb.Del(t.Context(), ledger.SegmentKey(seg, "head"), ledger.SegmentKey(seg, "chunks"))
			if submit(); run.ID == many.ID {
				if err := stager.Verify(t.Context()); err != nil {
					t.Error(err)
				}
			}
		}
	}
}

// TestNoIdentity asks a Redis that does not report its identity.
func TestNoIdentity(t *testing.T) {
	redistest.Mini(t)
	s, err := ledger.New(redistest.New(t)).Server(t.Context(), ledger.Segment{Run: "a", Incarnation: "aaaaaaaaaaaaaaaa"})
	if err != nil || s.Identity != "" || s.Complete() {
		t.Errorf("%+v, %v", s, err)
	}
}
