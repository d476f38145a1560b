package scan_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"orgops/apiclient"
	"orgops/internal/engine"
	"orgops/internal/ledger"
	"orgops/internal/sandbox"
	"orgops/internal/scan"
	"orgops/internal/sweep"
	"orgops/tasks/handlers"
)

// TestCrashLoopEnds: a step that takes down each worker that tries it ends the scan after
// as many attempts as one that fails, also if it is not the first.
func TestCrashLoopEnds(t *testing.T) {
	for _, first := range []int{0, 1} {
		t.Run(fmt.Sprint("step ", first), func(t *testing.T) {
			w := finding().world(t)
			if first > 0 {
				w.until(w.scanner(nil), func(r stored) bool { return r.Scan.Step > 2 })
			}
			workers := 0
			for ; workers < 30 && !w.read(run0).Scan.Ended; workers++ {
				sab := &saboteur{at: 4, dies: true} // the first request
				sc := w.scanner(sab)
				for range 5 {
					w.round(sc)
				}
			}
			p := w.progress()
			if reason := p.Early + p.Why; workers != engine.MaxAttempts+1 || !p.Ended ||
				!strings.Contains(reason, "given up after 17 attempts; the last ended without an answer") {
				t.Errorf("progress %+v after %d workers", p, workers)
			}
		})
	}
}

// TestBlocked: without the scope the operation is blocked, the run says why it waits, and
// the scan continues once the scope is there, however long that takes and whichever worker
// is the active one.
func TestBlocked(t *testing.T) {
	w := newWorld(t)
	w.sandbox.AddDomain("org_1", sandbox.Domain{ID: "ord_1"})
	lift := w.sandbox.AddFault(lacksScope)
	w.pending("")
	sc := w.scanner(nil)
	w.until(sc, func(r stored) bool { return r.Scan.Note != "" })
	if !slices.Equal(w.blocks, []string{sandbox.OpListOrganizations}) {
		t.Errorf("blocked are %q", w.blocks)
	}
	if r := w.read(run0); !strings.HasPrefix(r.Scan.Note, "blocked: ") || !r.Scan.NextAt.After(start) {
		t.Errorf("note %q, next at %v", r.Scan.Note, r.Scan.NextAt)
	}
	for w.sinceStart() < 12*time.Hour {
		for range 20 {
			w.round(sc)
		}
		sc = w.scanner(nil)
	}
	if n := w.requests(); n > 2*12*60*2 {
		t.Errorf("%d requests in 12 hours", n)
	}
	lift()
	w.drain(sc)
	w.wantFound("org_1/ord_1")
	w.wantProgress(sweep.Progress{Read: 1, Ended: true})
	if r := w.read(run0); r.Scan.Note != "" {
		t.Errorf("note %q", r.Scan.Note)
	}
}

// TestWaitSurvivesTheScanner: another scanner makes the next step no sooner.
func TestWaitSurvivesTheScanner(t *testing.T) {
	w := newWorld(t)
	w.sandbox.AddDomain("org_1", sandbox.Domain{ID: "ord_1"})
	w.sandbox.AddFault(sandbox.Fault{Status: http.StatusTooManyRequests,
		Header: http.Header{"Retry-After": {"600"}}, Count: 1})
	w.pending("")
	w.until(w.scanner(nil), func(r stored) bool { return r.Scan.Note != "" })
	sc := w.scanner(nil)
	for w.requests() == 1 && w.sinceStart() < time.Hour {
		w.round(sc)
	}
	if at := w.sinceStart(); at < 10*time.Minute || at > 12*time.Minute {
		t.Errorf("the next request was after %v, want 10 min", at)
	}
	w.drain(sc)
	w.wantFound("org_1/ord_1")
}

// TestWaitFromAClockAhead: a step that is due later than any can be is due.
func TestWaitFromAClockAhead(t *testing.T) {
	w := finding().world(t)
	if err := w.NoteScan(t.Context(), w.read(run0).Run, "transient: x", start.Add(50*time.Hour)); err != nil {
		t.Fatal(err)
	}
	w.scanned()
	finding().end(w)
	if at := w.sinceStart(); at > time.Hour {
		t.Errorf("the scan ended after %v", at)
	}
}

// TestClockGoesBack: a scan continues although Redis' clock goes back by hours.
func TestClockGoesBack(t *testing.T) {
	w := finding().world(t)
	sc := w.scanner(nil)
	w.until(sc, func(r stored) bool { return len(r.all()) > 0 })
	w.advance(-5 * time.Hour)
	w.drain(sc)
	finding().end(w)
	if at := w.sinceStart(); at > -4*time.Hour {
		t.Errorf("the scan ended %v later", at+5*time.Hour)
	}
}

// TestInactive: a worker that is not the active one sends no request, and no command to
// Redis.
func TestInactive(t *testing.T) {
	w := finding().world(t)
	w.active.Store(false)
	sab := &saboteur{at: -1}
	sc := w.scanner(sab)
	for range 100 {
		if after := w.round(sc); after < time.Second {
			t.Fatalf("the next round is after %v", after)
		}
	}
	if len(sab.calls) != 0 || w.nows != 0 {
		t.Errorf("%d calls, %d readings of the time", len(sab.calls), w.nows)
	}
}

// TestIdle: without a scan the runs are read once in ten seconds.
func TestIdle(t *testing.T) {
	w := newWorld(t)
	sc := w.scanner(nil)
	rounds := 0
	for ; w.sinceStart() < 10*time.Minute; rounds++ {
		w.round(sc)
	}
	if w.lists > 61 || rounds > 120 {
		t.Errorf("%d readings of the runs and %d rounds in 10 minutes", w.lists, rounds)
	}
}

// pages is an API of organizations with many pages of domains, of which each has one. It
// advances the clock with each page.
type pages struct {
	w     *world
	pages int
	took  time.Duration

	mu    sync.Mutex
	asked []string // the organizations of the requests
}

func (p *pages) OrganizationsPage(context.Context, string) ([]apiclient.Listed[apiclient.Organization], string, error) {
	return nil, "", errors.New("not expected")
}

func (p *pages) DiscoveryDomainsPage(_ context.Context,
	org, from string) ([]apiclient.Listed[apiclient.DiscoveryDomain], string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.w.advance(p.took)
	p.asked = append(p.asked, org)
	n := 0
	_, _ = fmt.Sscan(from, &n)
	next := ""
	if n+1 < p.pages {
		next = fmt.Sprint(n + 1)
	}
	d := apiclient.DiscoveryDomain{
		ID: fmt.Sprintf("ord_%s_%d", org, n), Domain: "example.org", VerificationHost: "_x.example.org", VerificationTXT: "t",
		Status: apiclient.StatusPending,
	}
	return []apiclient.Listed[apiclient.DiscoveryDomain]{{Record: d}}, next, nil
}

// TestRunsInTurn makes the steps of several runs in turn.
func TestRunsInTurn(t *testing.T) {
	w := newWorld(t)
	api := &pages{w: w, pages: 20}
	w.api = api
	for _, id := range []string{"a", "b", "c"} {
		progress, err := scan.PendingProgress("org_" + id)
		if err != nil {
			t.Fatal(err)
		}
		w.create(ledger.RunID(id), handlers.Verify, progress)
	}
	sc := w.scanner(nil)
	for range 300 {
		w.round(sc)
	}
	if len(api.asked) != 60 {
		t.Fatalf("%d pages were read, want 60", len(api.asked))
	}
	for i := range 20 {
		three := slices.Sorted(slices.Values(api.asked[3*i : 3*i+3]))
		if !slices.Equal(three, []string{"org_a", "org_b", "org_c"}) {
			t.Fatalf("order of requests %q, want each run's in turn", api.asked)
		}
	}
}

// TestCommits: rows are committed soon after they were found, while the scan continues.
func TestCommits(t *testing.T) {
	w := newWorld(t)
	const n = 99
	w.api = &pages{w: w, pages: n, took: 10 * time.Second}
	w.pending("org_1")
	sc := w.scanner(nil)
	since := time.Duration(0)
	w.until(sc, func(r stored) bool {
		if len(r.found) == 0 {
			since = w.sinceStart()
		} else if waits := w.sinceStart() - since; waits > time.Minute {
			t.Fatalf("rows wait for %v", waits)
		}
		return !r.Growing
	})
	if r := w.read(run0); len(r.rows) != n {
		t.Errorf("%d rows, want %d", len(r.rows), n)
	}
}

// TestRedisAway: while Redis refuses writes or cannot be reached nothing is lost, and no
// attempt is used up.
func TestRedisAway(t *testing.T) {
	away := &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	for name, err := range map[string]error{"away": away, "out of memory": ledger.ErrNoMemory} {
		for _, call := range []string{"", "list", "cursor", "get", "step", "commit", "note"} {
			t.Run(name+"/"+call, func(t *testing.T) {
				w := finding().world(t)
				sab := &saboteur{at: -1}
				sab.fail = func(name string) error {
					if (name == call || call == "") && w.sinceStart() < 12*time.Hour && name != "domains" && name != "organizations" {
						return err
					}
					return nil
				}
				sc := w.scanner(sab)
				for range maxRounds {
					if w.sinceStart() > 12*time.Hour || !w.read(run0).Growing {
						break
					}
					w.advance(max(w.round(sc), 10*time.Second))
				}
				if n := w.read(run0).cursorAttempts(t); n > 1 {
					t.Errorf("%d attempts are counted", n)
				}
				w.drain(sc)
				finding().end(w)
			})
		}
	}
}

// TestNewerVersion: a scan that a newer version has continued waits for it, and keeps
// its progress.
func TestNewerVersion(t *testing.T) {
	for name, change := range map[string]func(*stored){
		"cursor":   func(r *stored) { r.cursor = []byte(`{"through":true,"deeper":7}`) },
		"progress": func(r *stored) { r.Scan.Progress = []byte(`{"organizations_read":1,"deeper":7}`) },
	} {
		t.Run(name, func(t *testing.T) {
			w := finding().world(t)
			w.control(change)
			before := w.read(run0)
			sc := w.scanner(nil)
			for w.sinceStart() < time.Hour {
				w.round(sc)
			}
			after := w.read(run0)
			if w.requests() > 0 || after.Scan.Step != before.Scan.Step || string(after.cursor) != string(before.cursor) ||
				!strings.Contains(after.Scan.Note, "newer worker") {
				t.Errorf("%d requests, scan %+v", w.requests(), after.Scan)
			}
		})
	}
}

// TestDamagedCursor: a scan whose cursor cannot be read makes no step, and says so.
func TestDamagedCursor(t *testing.T) {
	w := finding().world(t)
	w.control(func(r *stored) { r.cursor = []byte(`{`) })
	sc := w.scanner(nil)
	for w.sinceStart() < 10*time.Minute {
		w.round(sc)
	}
	if r := w.read(run0); w.requests() > 0 || r.Scan.Step != 1 || !strings.Contains(r.Scan.Note, "the scan's cursor") {
		t.Errorf("%d requests, scan %+v", w.requests(), r.Scan)
	}
}

// TestUnknownKind: a scan of a kind that only a newer worker knows is left to it.
func TestUnknownKind(t *testing.T) {
	w := finding().world(t)
	w.control(func(r *stored) { r.Kind = "domain:audit" })
	sc := w.scanner(nil)
	for w.sinceStart() < time.Minute {
		w.round(sc)
	}
	if r := w.read(run0); w.requests() > 0 || r.Scan.Step != 1 ||
		!strings.Contains(w.log.String(), "a newer worker is needed") {
		t.Errorf("%d requests, scan %+v, log:\n%s", w.requests(), r.Scan, w.log.String())
	}
}

// TestSubmittedRuns: a run whose rows are submitted gets no step.
func TestSubmittedRuns(t *testing.T) {
	w := finding().world(t)
	submitted := &submittedRuns{memory: w.memory}
	sc := scan.New(scan.Config{Tenant: tenant, Ledger: submitted, API: w.api,
		Requests: map[ledger.Kind]scan.Request{handlers.Verify: scan.Pending{}}, Active: func() bool {
			return true
		}})
	for range 10 {
		w.round(sc)
	}
	if n := w.requests(); n > 0 {
		t.Errorf("%d requests", n)
	}
}

// submittedRuns is a ledger whose runs have no scan.
type submittedRuns struct{ *memory }

func (s *submittedRuns) OpenRuns(ctx context.Context, t ledger.Tenant) ([]ledger.Run, error) {
	runs, err := s.memory.OpenRuns(ctx, t)
	for i := range runs {
		runs[i].Scan = nil
	}
	return runs, err
}

// panicking is an API that panics for a while.
type panicking struct {
	scan.API
	mu    sync.Mutex
	times int
}

func (p *panicking) DiscoveryDomainsPage(ctx context.Context,
	org, from string) ([]apiclient.Listed[apiclient.DiscoveryDomain], string, error) {
	p.mu.Lock()
	p.times--
	panics := p.times >= 0
	p.mu.Unlock()
	if panics {
		panic("a bug")
	}
	return p.API.DiscoveryDomainsPage(ctx, org, from)
}

// TestPanic: a panic is an attempt that failed.
func TestPanic(t *testing.T) {
	w := finding().world(t)
	w.api = &panicking{API: w.api, times: 2}
	w.scanned()
	finding().end(w)
	if !strings.Contains(w.log.String(), "stack") {
		t.Error("the panic is not in the log")
	}

	w = finding().world(t)
	w.api = &panicking{API: w.api, times: 1 << 30}
	w.scanned()
	if p := w.progress(); p.Missed != 4 || !strings.Contains(p.Why, "given up after 17 attempts: panic: a bug") {
		t.Errorf("progress %+v", p)
	}
}

// TestReasonsAreShort: whatever the API says, progress and notes stay small.
func TestReasonsAreShort(t *testing.T) {
	w := newWorld(t)
	w.api = talkative{}
	w.pending("")
	w.until(w.scanner(nil), func(r stored) bool {
		if len(r.Scan.Note) > 4<<10 || len(r.Scan.Progress) > 8<<10 {
			t.Fatalf("note of %d and progress of %d bytes", len(r.Scan.Note), len(r.Scan.Progress))
		}
		return !r.Growing
	})
	if !json.Valid(w.read(run0).Scan.Progress) {
		t.Error("progress is not JSON")
	}
}

// talkative is an API whose refusals are long.
type talkative struct{}

func (talkative) OrganizationsPage(_ context.Context,
	from string) ([]apiclient.Listed[apiclient.Organization], string, error) {
	if from == "" {
		return []apiclient.Listed[apiclient.Organization]{{Record: apiclient.Organization{ID: "org_1"}}}, "next", nil
	}
	return nil, "", &apiclient.Error{Status: http.StatusBadRequest, Message: strings.Repeat("ä", 1<<20)}
}

func (talkative) DiscoveryDomainsPage(context.Context, string,
	string) ([]apiclient.Listed[apiclient.DiscoveryDomain], string, error) {
	return nil, "", &apiclient.Error{Status: http.StatusBadRequest, Message: strings.Repeat("ü", 1<<20)}
}

// TestWake has a scanner that waits find a run at once.
func TestWake(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, w *world) {
		w.ticks = true
		w.sandbox.AddDomain("org_1", sandbox.Domain{ID: "ord_1"})
		sc := w.scanner(nil)
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { sc.Run(ctx) })
		defer running.Wait()
		defer stop()
		await(t, "the runs are read", func() bool { return w.listings() == 1 })
		w.pending("")
		sc.Wake()
		await(t, "the run ends", func() bool { return !w.read(run0).Growing })
		w.wantFound("org_1/ord_1")
	})
}

// patience is how long a test waits for something that takes seconds, on a machine that has
// much else to do.
const patience = 4 * time.Minute

func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}
