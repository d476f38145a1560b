package scan_test

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"orgops/apiclient"
	"orgops/internal/engine"
	"orgops/internal/ledger"
	"orgops/internal/sandbox"
	"orgops/internal/scan"
	"orgops/internal/scan/progress"
	"orgops/tasks/handlers"
)

// TestCrashLoopEnds: a step that takes down each worker that tries it ends the scan after
// as many attempts as one that fails, also if it is not the first, and says so.
func TestCrashLoopEnds(t *testing.T) {
	for first, call := range map[string]int{"the first step": 1, "a later step": 3} {
		t.Run(first, func(t *testing.T) {
			w := finding().world(t)
			workers := 0
			for ; w.read(run0).scan.Checkpoint.Attempts < engine.MaxAttempts && workers < 30; workers++ {
				w.kill(&saboteur{at: call})
				call = 1 // the first request
			}
			requests := w.requests()
			w.scanned()
			r := w.read(run0)
			if workers != engine.MaxAttempts+2 || w.requests() != requests || r.scan.Result.Outcome != ledger.Failed ||
				!strings.Contains(string(r.Scan.Note), "given up after 17 attempts; the last ended without an answer") {
				t.Errorf("%d workers, scan %+v, row %+v", workers, r.Scan, r.scan)
			}
		})
	}
}

// note returns why the scan of run0 waits.
func (w *world) note() ledger.Note { return ledger.ParseNote(w.read(run0).Scan.Note) }

// TestBlocked: without the scope the operation is blocked, the run says why it waits, and
// the scan continues once the scope is there, however long that takes and whichever worker
// executes it.
func TestBlocked(t *testing.T) {
	w := newWorld(t)
	w.sandbox.AddDomain("org_1", sandbox.Domain{ID: "ord_1"})
	lift := w.sandbox.AddFault(lacksScope)
	w.pending("")
	of := w.worker(nil)
	w.until(of, func(r stored) bool { return len(r.Scan.Note) > 0 })
	if !slices.Equal(w.blocks, []string{sandbox.OpListOrganizations}) {
		t.Errorf("blocked are %q", w.blocks)
	}
	if note, next := w.note(), w.read(run0).Scan.NextAt; note.Outcome != ledger.Blocked ||
		!strings.Contains(note.Reason, "403") || !next.After(start) {
		t.Errorf("note %+v, next at %v", note, next)
	}
	for w.sinceStart() < 12*time.Hour {
		for range 20 {
			w.round(of)
		}
		of = w.worker(nil)
	}
	if n := w.requests(); n > 2*12*60*2 {
		t.Errorf("%d requests in 12 hours", n)
	}
	lift()
	w.drain(of)
	w.wantFound("org_1/ord_1")
	w.wantProgress(progress.Scan{Read: 1, Ended: true})
	if r := w.read(run0); len(r.Scan.Note) > 0 {
		t.Errorf("note %q", r.Scan.Note)
	}
}

// TestNewerVersion: a scan that a newer version has continued waits for it, and keeps
// its progress.
func TestNewerVersion(t *testing.T) {
	w := newWorld(t)
	w.create(handlers.Verify, []byte(`{"organizations_read":1,"deeper":7}`))
	for of := w.worker(nil); w.sinceStart() < 10*time.Minute; {
		w.round(of)
	}
	if r := w.read(run0); w.requests() > 0 || !r.Growing || r.scan.Checkpoint.Attempts > 0 ||
		!strings.Contains(string(r.Scan.Note), "newer worker") || !strings.Contains(string(r.scan.Content), "deeper") {
		t.Errorf("%d requests, scan %+v, row %+v", w.requests(), r.Scan, r.scan)
	}
}

// TestDamagedPosition: a scan whose position cannot be read ends early, and says so.
func TestDamagedPosition(t *testing.T) {
	w := newWorld(t)
	w.create(handlers.Verify, []byte(`{`))
	w.scanned()
	if r := w.read(run0); w.requests() > 0 || !r.Ended() || len(r.Scan.Note) == 0 {
		t.Errorf("%d requests, scan %+v", w.requests(), r.Scan)
	}
}

// TestPanic: a panic is an attempt that failed.
func TestPanic(t *testing.T) {
	w := finding().world(t)
	w.api = fake{domains: func(context.Context, scan.API, string, string) (domainPage, string, error) {
		panic("a bug")
	}}.answered(w.api)
	w.scanned()
	if p := w.progress(); p.Missed != 4 || !strings.Contains(p.Why, "given up after 17 attempts: panic: a bug") ||
		!strings.Contains(w.log.String(), "stack") {
		t.Errorf("progress %+v; log:\n%s", p, w.log.String())
	}
}

// TestReasonsAreShort: whatever the API says, progress and notes stay small.
func TestReasonsAreShort(t *testing.T) {
	w := newWorld(t)
	refusal := &apiclient.Error{Status: http.StatusBadRequest, Message: strings.Repeat("ä", 1<<20)}
	w.api = fake{organizations: func(from string) (id, next string, err error) {
		if from == "" {
			return "org_1", "next", nil
		}
		return "", "", refusal
	}, domains: func(context.Context, scan.API, string, string) (domainPage, string, error) {
		return nil, "", refusal
	}}.answered(w.api)
	w.pending("")
	w.until(w.worker(nil), func(r stored) bool {
		if len(r.Scan.Note) > 4<<10 || len(r.Scan.Progress) > 8<<10 {
			t.Fatalf("note of %d and progress of %d bytes", len(r.Scan.Note), len(r.Scan.Progress))
		}
		return !r.Growing
	})
	if p := w.progress(); !strings.Contains(p.Early, "400") || p.Missed != 1 || !json.Valid(w.read(run0).Scan.Progress) {
		t.Errorf("progress %+v", p)
	}
}

// TestScansAtOnce: the scans of a worker share the bound of their requests.
func TestScansAtOnce(t *testing.T) {
	w := newWorld(t)
	for i := range 100 {
		w.sandbox.AddOrganization("org_"+string(rune('a'+i%26))+string(rune('a'+i/26)), "")
	}
	var now, most atomic.Int64 // requests in progress
	w.api = fake{domains: func(ctx context.Context, api scan.API, org, from string) (domainPage, string, error) {
		defer now.Add(-1)
		n := now.Add(1)
		for before := most.Load(); n > before && !most.CompareAndSwap(before, n); before = most.Load() {
		}
		return api.DiscoveryDomainsPage(ctx, org, from)
	}}.answered(w.api)
	of := w.worker(nil)
	var all sync.WaitGroup
	for _, id := range []ledger.RunID{"a", "b", "c"} {
		run, _, err := w.Create(t.Context(), ledger.NewRun{ID: id, Tenant: tenant, Kind: handlers.Verify,
			Scan: progressJSON(t, progress.Scan{})})
		if err != nil {
			t.Fatal(err)
		}
		seg := ledger.Segment{Tenant: tenant, Run: id, Incarnation: run.Incarnation, Number: ledger.ScanSegment}
		r, err := w.Release(t.Context(), seg, ledger.Quota{First: 1})
		if err != nil {
			t.Fatal(err)
		}
		run.Kind = ledger.ScanOf(run.Kind)
		task := w.task(engine.NewTask(run, seg, r.Token, r.Rows...))
		all.Go(func() { _ = of.ProcessTask(t.Context(), task) })
	}
	all.Wait()
	for _, id := range []ledger.RunID{"a", "b", "c"} {
		if r := w.read(id); !r.Ended() {
			t.Errorf("scan of %s: %+v", id, r.Scan)
		}
	}
	if n := most.Load(); n > scan.Parallel {
		t.Errorf("%d requests at a time, want at most %d", n, scan.Parallel)
	}
}
