package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"orgops/internal/intake"
	"orgops/internal/ledger"
	"orgops/internal/redistest"
	"orgops/internal/sandbox"
	"orgops/internal/scan/progress"
	"orgops/tasks"
)

// TestSizesOfSweeps measures the memory of a domain's state and of its row in a sweep, and
// compares them with those of docs/operations/sizing.md. miniredis has no MEMORY USAGE.
func TestSizesOfSweeps(t *testing.T) {
	if os.Getenv(redistest.EnvURL) == "" {
		t.Skip("needs a real Redis: set " + redistest.EnvURL)
	}
	t.Parallel()
	box := startBox(t, sandbox.Options{})
	crowd := box.SeedBulk(sandbox.BulkOptions{Organizations: 500, Absent: 0.02, Servfail: 0.01})
	d := newDesk(t)
	begin(t, pointedAt(box, redistest.URL(t), nil))
	measured := func(run ledger.RunID, tick int64) (states, rows int64) {
		if _, _, err := intake.New(d.redis, d.ledger).BeginSweep(t.Context(),
			ledger.NewRun{ID: run, Tenant: tasks.DefaultTenant}, progress.Scan{Tick: tick}); err != nil {
			t.Fatal(err)
		}
		d.ended(string(run))
		for _, key := range redistest.Keys(t, "orgops:*") {
			size := d.redis.MemoryUsage(t.Context(), key, 0).Val()
			switch {
			case strings.Contains(key, ":watch:domain:"):
				states += size + expiryBytes
			case strings.HasSuffix(key, ":chunks") || strings.HasSuffix(key, ":results"):
				rows += size
			}
		}
		return states / int64(crowd.Domains), rows / int64(crowd.Domains)
	}
	now := time.Now().Unix()
	_, first := measured("first", now-1)
	state, both := measured("second", now)
	for what, is := range map[string]struct{ got, documented int64 }{
		"state of a domain":               {state, 850},
		"row of the sweep that proves it": {first, 380},
		"row of a sweep after that":       {both - first, 180},
	} {
		t.Logf("%s: %d bytes", what, is.got)
		if is.got > is.documented || is.got < is.documented*3/4 {
			t.Errorf("%s: %d bytes, and %d are documented: want at most these, and three quarters at least",
				what, is.got, is.documented)
		}
	}
}

// expiryBytes is the memory of a time to live that MEMORY USAGE leaves out: an entry of the
// dictionary of expiries, and its share of the tables.
const expiryBytes = 48
