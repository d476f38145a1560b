package runs_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/internal/redistest"
	"orgops/internal/runs"
)

const kind = "domain:verify"

func newLedger(t *testing.T) (*runs.Ledger, redis.UniversalClient) {
	t.Helper()
	rdb := redistest.New(t)
	return runs.New(rdb), rdb
}

func create(t *testing.T, l *runs.Ledger, id string) {
	t.Helper()
	if _, created, err := l.Create(t.Context(), runs.Run{ID: id, Kind: kind, Tenant: "default"}); err != nil || !created {
		t.Fatalf("create %s: created %v, %v", id, created, err)
	}
}

// storeUpTo stores rows until there are total.
func storeUpTo(t *testing.T, l *runs.Ledger, id string, total int64) {
	t.Helper()
	for first := int64(0); first < total; first += runs.ChunkRows {
		stored, err := l.Rows(t.Context(), id, first, 1)
		if err != nil {
			t.Fatal(err)
		}
		if len(stored) > 0 {
			continue
		}
		if err := l.StoreRows(t.Context(), id, first, make([][]byte, min(total-first, runs.ChunkRows))); err != nil {
			t.Fatal(err)
		}
	}
}

// seal seals the run; rows that were not stored are stored empty.
func seal(t *testing.T, l *runs.Ledger, id string, total int64) {
	t.Helper()
	storeUpTo(t, l, id, total)
	if err := l.Seal(t.Context(), id, total); err != nil {
		t.Fatal(err)
	}
}

func settle(t *testing.T, l *runs.Ledger, id, outcome, detail string, items ...int64) {
	t.Helper()
	if err := l.Settle(t.Context(), id, kind, 0, items, outcome, detail); err != nil {
		t.Fatal(err)
	}
}

func get(t *testing.T, l *runs.Ledger, id string) runs.Run {
	t.Helper()
	r, err := l.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func fates(t *testing.T, l *runs.Ledger, id string) []runs.Fate {
	t.Helper()
	var all []runs.Fate
	for f, err := range l.Fates(t.Context(), id) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, f)
	}
	return all
}

// generation returns the run's nth generation, from 0.
func generation(t *testing.T, l *runs.Ledger, id string, n int) int {
	t.Helper()
	return get(t, l, id).First + n
}

// begin has the row begin by one who knows its mark, and returns what stands against it.
func begin(t *testing.T, l *runs.Ledger, id string, item int64, mark string) (against string) {
	t.Helper()
	against, err := l.Begin(t.Context(), id, item, generation(t, l, id, 0), "post", []byte(mark), []byte(marks(t, l, id, item)["post"]))
	if err != nil {
		t.Fatal(err)
	}
	return against
}

// keep sets a mark on a row, as a look does that leaves it open.
func keep(t *testing.T, l *runs.Ledger, id string, item int64, name, value string) {
	t.Helper()
	if err := l.Looked(t.Context(), id, item, 0, "not there", time.Time{}, nil, map[string][]byte{name: []byte(value)}); err != nil {
		t.Fatal(err)
	}
}

// marks are those of a row.
func marks(t *testing.T, l *runs.Ledger, id string, item int64) map[string]string {
	t.Helper()
	_, kept, _, err := l.Standing(t.Context(), id, kind, 0, []int64{item})
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	for name, value := range kept {
		texts[name] = string(value)
	}
	return texts
}
