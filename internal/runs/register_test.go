package runs_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"orgops/internal/runs"
)

func TestRegister(t *testing.T) {
	l, _ := newLedger(t)
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	rows := [][]byte{[]byte(`{"a":1}`), []byte(`{"a":2}`)}
	for range 2 {
		if err := l.Register(t.Context(), "a", kind, "default", 0, at, rows); err != nil {
			t.Fatal(err)
		}
	}
	r := get(t, l, "a")
	want := runs.Run{ID: "a", Kind: kind, Tenant: "default", Format: "jsonl", Digest: r.Digest, Sealed: true, Stored: 2, Total: 2, Counts: map[string]int64{}, CreatedAt: at}
	if diff := cmp.Diff(want, r); diff != "" {
		t.Errorf("run (-want +got):\n%s", diff)
	}
	if got, err := l.Rows(t.Context(), "a", 0, 10); err != nil || !cmp.Equal(got, rows) {
		t.Errorf("rows %q, %v", got, err)
	}
	if open, err := l.Unsettled(t.Context()); err != nil || !cmp.Equal(open, []string{"a"}) {
		t.Errorf("unsettled %v, %v: whoever waits for all runs waits for this one", open, err)
	}
	if all, err := l.List(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("listed %v, %v: want it left out", all, err)
	}

	for _, other := range []struct {
		member, kind, tenant string
		rows                 [][]byte
	}{
		{"kind", "template:create", "default", rows},
		{"tenant", kind, "acme", rows},
		{"content", kind, "default", rows[:1]},
	} {
		err := l.Register(t.Context(), "a", other.kind, other.tenant, 0, at, other.rows)
		mismatch, ok := errors.AsType[*runs.MismatchError](err)
		if !ok || mismatch.Member != other.member || !mismatch.Mismatch() {
			t.Errorf("another %s: %v", other.member, err)
		}
	}
	for _, n := range []int{0, runs.ChunkRows + 1} {
		if err := l.Register(t.Context(), "b", kind, "default", 0, at, make([][]byte, n)); err == nil {
			t.Errorf("%d rows were registered", n)
		}
	}

	settle(t, l, "a", "done", "", 0, 1)
	if r := get(t, l, "a"); !r.Ended() {
		t.Error("all rows are settled, and the run has not ended")
	}
	if err := l.Register(t.Context(), "a", kind, "default", 0, at, rows); err != nil || get(t, l, "a").Settled != 2 {
		t.Errorf("registered again after its end: %v", err)
	}
}
