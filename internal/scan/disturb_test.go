package scan_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"orgops/apiclient"
	"orgops/internal/ledger"
	"orgops/internal/redistest"
	"orgops/internal/sandbox"
	"orgops/internal/scan"
	"orgops/internal/sweep"
	"orgops/tasks/handlers"
)

// callsOf returns the calls of an undisturbed scan.
func callsOf(t *testing.T, s scenario) []string {
	t.Helper()
	w, sab := s.world(t), &saboteur{at: -1}
	w.drain(w.scanner(sab))
	return sab.calls
}

// anywhere calls test for a disturbance before and after each call of the scan, or at each
// third of these points. Calls that are made side by side come in any order.
func anywhere(t *testing.T, s scenario, test func(t *testing.T, w *world, sab *saboteur)) {
	t.Helper()
	point, every := len(s.name), redistest.Stride(3) // scans have different points
	for k, call := range callsOf(t, s) {
		for _, after := range []bool{false, true} {
			if point++; point%every != 0 {
				continue
			}
			t.Run(fmt.Sprintf("%d %s after %t", k, call, after), func(t *testing.T) {
				sab := &saboteur{at: k, after: after}
				test(t, s.world(t), sab)
				if !sab.acted {
					t.Errorf("call %d was not made", k)
				}
			})
		}
	}
}

// TestKilledAnywhere kills the worker before and after each call, and has another one
// continue.
func TestKilledAnywhere(t *testing.T) {
	eachScan(t, func(t *testing.T, s scenario) {
		anywhere(t, s, func(t *testing.T, w *world, sab *saboteur) {
			sab.dies = true
			dying := w.scanner(sab)
			for range maxRounds {
				if sab.acted || !w.read(run0).Growing {
					break
				}
				w.round(dying)
			}
			w.scanned()
			s.end(w)
		})
	})
}

// TestFailingAnywhere has one call fail, before or after its effect, and the same worker
// continue.
func TestFailingAnywhere(t *testing.T) {
	eachScan(t, func(t *testing.T, s scenario) {
		anywhere(t, s, func(t *testing.T, w *world, sab *saboteur) {
			sab.dies = true
			sab.act = func() {
				sab.mu.Lock()
				defer sab.mu.Unlock()
				sab.dead = false
			}
			w.drain(w.scanner(sab))
			s.end(w)
		})
	})
}

// TestStoppedAnywhere ends the context of the worker before and after each call, and has
// another one continue.
func TestStoppedAnywhere(t *testing.T) {
	eachScan(t, func(t *testing.T, s scenario) {
		anywhere(t, s, func(t *testing.T, w *world, sab *saboteur) {
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			sab.act = stop
			stopping := w.scanner(sab)
			for range maxRounds {
				if ctx.Err() != nil || !w.read(run0).Growing {
					break
				}
				w.advance(stopping.Round(ctx))
			}
			if r := w.read(run0); r.Scan.Note != "" || r.cursorAttempts(t) > 0 && sab.calls[sab.at] != "step" {
				t.Errorf("note %q, cursor %s", r.Scan.Note, r.cursor)
			}
			w.scanned()
			s.end(w)
		})
	})
}

// TestTwoScannersAnywhere has another scanner do everything before and after each call of
// the first one, or one round.
func TestTwoScannersAnywhere(t *testing.T) {
	t.Parallel()
	eachScan(t, func(t *testing.T, s scenario) {
		for _, rounds := range []int{1, 3, maxRounds} {
			anywhere(t, s, func(t *testing.T, w *world, sab *saboteur) {
				other := w.scanner(nil)
				sab.act = func() {
					for range rounds {
						if !w.read(run0).Growing {
							break
						}
						w.round(other)
					}
				}
				w.drain(w.scanner(sab))
				s.end(w)
			})
		}
	})
}

// TestInactiveAnywhere: a worker that is not the active one any more makes no request, and
// another one continues.
func TestInactiveAnywhere(t *testing.T) {
	t.Parallel()
	eachScan(t, func(t *testing.T, s scenario) {
		anywhere(t, s, func(t *testing.T, w *world, sab *saboteur) {
			requests := 0
			sab.act = func() { w.active.Store(false) }
			first := w.scanner(sab)
			for w.active.Load() && w.read(run0).Growing {
				w.round(first)
			}
			requests = w.requests()
			for range 20 {
				w.round(first)
			}
			if n := w.requests() - requests; n != 0 {
				t.Errorf("%d requests of a worker that is not active", n)
			}
			w.active.Store(true)
			w.scanned()
			s.end(w)
		})
	})
}

// control changes run0 as a command does.
func (w *world) control(f func(*stored)) { w.change(run0, f) }

func pause(r *stored)  { r.Paused = true }
func resume(r *stored) { r.Paused = false }
func cancel(r *stored) { r.Cancelled = true }

// TestPausedAnywhere pauses the run before and after each call, and resumes it.
func TestPausedAnywhere(t *testing.T) {
	t.Parallel()
	eachScan(t, func(t *testing.T, s scenario) {
		anywhere(t, s, func(t *testing.T, w *world, sab *saboteur) {
			sab.act = func() { w.control(pause) }
			sc := w.scanner(sab)
			sc.AskAlways()
			for range 30 {
				w.round(sc)
			}
			r, requests := w.read(run0), w.requests()
			if len(r.found) > 0 {
				t.Errorf("%d rows that were found wait for the end of the pause", len(r.found))
			}
			for range 30 {
				w.round(sc)
			}
			if n := w.requests() - requests; n != 0 || r.cursorAttempts(t) > 0 {
				t.Errorf("%d requests while paused; cursor %s", n, r.cursor)
			}
			w.control(resume)
			sc.Wake()
			w.drain(sc)
			s.end(w)
		})
	})
}

// TestCancelledAnywhere: after a cancel no row is added and no request is made.
func TestCancelledAnywhere(t *testing.T) {
	eachScan(t, func(t *testing.T, s scenario) {
		anywhere(t, s, func(t *testing.T, w *world, sab *saboteur) {
			rows := 0
			sab.act = func() {
				w.control(cancel)
				rows = len(w.read(run0).all())
			}
			sc := w.scanner(sab)
			sc.AskAlways()
			for range 30 {
				w.round(sc)
			}
			requests := w.requests()
			for range 30 {
				w.round(sc)
			}
			if n := len(w.read(run0).all()); n != rows {
				t.Errorf("%d rows, %d when it was cancelled", n, rows)
			}
			if n := w.requests() - requests; n != 0 {
				t.Errorf("%d requests of a cancelled run", n)
			}
		})
	})
}

// TestDeletedAnywhere deletes the run before and after each call. The next run of the same
// id gets its own rows.
func TestDeletedAnywhere(t *testing.T) {
	eachScan(t, func(t *testing.T, s scenario) {
		for _, again := range []bool{false, true} {
			anywhere(t, s, func(t *testing.T, w *world, sab *saboteur) {
				first := w.read(run0)
				sab.act = func() {
					w.delete(run0)
					if again {
						w.advance(time.Second)
						w.create(run0, first.Kind, first.Scan.Progress)
						w.sandbox.AddDomain("org_9", sandbox.Domain{ID: "ord_9",
							Status: map[bool]string{true: "verified", false: "pending"}[first.Kind == recheck]})
					}
				}
				sc := w.scanner(sab)
				for range 30 {
					w.round(sc)
				}
				if !again {
					return
				}
				w.drain(sc)
				w.wantFound(append(slices.Clone(s.rows), "org_9/ord_9")...)
			})
		}
	})
}

// TestTrouble disturbs each request of a scan in turn, or each second one, once: the scan
// continues, and leaves nothing out.
func TestTrouble(t *testing.T) {
	t.Parallel()
	status := func(code int, header ...string) sandbox.Fault {
		f := sandbox.Fault{Status: code, Header: http.Header{}}
		if len(header) > 0 {
			f.Header.Set(header[0], header[1])
		}
		return f
	}
	for name, fault := range map[string]sandbox.Fault{
		"throttled":    status(http.StatusTooManyRequests, "Retry-After", "7"),
		"unavailable":  status(http.StatusServiceUnavailable),
		"unauthorized": status(http.StatusUnauthorized),
		"lacks scope":  lacksScope,
		"lost":         {DropAfter: true},
		"cut":          {Truncate: true},
	} {
		t.Run(name, func(t *testing.T) {
			eachScan(t, func(t *testing.T, s scenario) {
				undisturbed := s.world(t)
				undisturbed.scanned()
				every := redistest.Stride(2)
				for k := (len(name) + len(s.name)) % every; k < undisturbed.requests(); k += every {
					w := newWorld(t)
					fault.Skip, fault.Count = k, 1
					w.sandbox.AddFault(fault)
					s.begin(w)
					w.scanned()
					s.end(w)
				}
			})
		})
	}
}

var lacksScope = sandbox.Fault{Status: http.StatusForbidden,
	Body: `{"statusCode":403,"error":"Forbidden","message":"Insufficient scope, expected any of: x","errorCode":"insufficient_scope"}`}

// line lets requests pass one after the other, and does something before one of them.
type line struct {
	places chan struct{}
	at     int
	act    func()
	n      int
}

func (*line) Answered(context.Context, string, int, http.Header) {}

func (l *line) Wait(context.Context, string) error {
	<-l.places
	if l.n++; l.n == l.at {
		l.act()
	}
	l.places <- struct{}{}
	return nil
}

// TestPauseStopsRequests: of many requests that wait for their permits none is sent after
// the run was paused, cancelled, postponed or deleted, or another worker is active. What was
// answered by then is stored.
func TestPauseStopsRequests(t *testing.T) {
	for name, stop := range map[string]func(*world){
		"paused":    func(w *world) { w.control(pause) },
		"postponed": func(w *world) { w.control(func(r *stored) { r.NotBefore = start.Add(time.Hour) }) },
		"cancelled": func(w *world) { w.control(cancel) },
		"deleted":   func(w *world) { w.delete(run0) },
		"created again": func(w *world) {
			progress := w.read(run0).Scan.Progress
			w.delete(run0)
			w.advance(time.Second)
			w.create(run0, handlers.Verify, progress)
		},
		"inactive": func(w *world) { w.active.Store(false) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			for i := range 30 {
				w.sandbox.AddDomain(fmt.Sprintf("org_%02d", i), sandbox.Domain{ID: fmt.Sprintf("ord_%02d", i)})
			}
			var stopped atomic.Bool
			l := &line{places: make(chan struct{}, 1), at: 1 + 10, act: func() {
				stop(w)
				stopped.Store(true)
			}}
			l.places <- struct{}{}
			client, err := apiclient.New(apiclient.Config{
				BaseURL: w.sandbox.BaseURL(), Tokens: apiclient.StaticToken(apiclient.NewSecret(w.sandbox.Token())), Gate: l,
			})
			if err != nil {
				t.Fatal(err)
			}
			defer client.CloseIdle()
			w.api = client
			w.pending("")
			sc := w.scanner(nil)
			sc.AskAlways()
			for !stopped.Load() {
				w.round(sc)
			}
			if n := w.requests(sandbox.OpListDiscoveryDomains); n > 9 {
				t.Errorf("%d pages were requested, want at most the 9 before", n)
			}
			if name == "cancelled" || name == "deleted" || name == "created again" {
				if n := len(w.read(run0).all()); n != 0 {
					t.Errorf("%d rows were added", n)
				}
				return
			}
			if n := len(w.read(run0).all()); n != w.requests(sandbox.OpListDiscoveryDomains) {
				t.Errorf("%d rows of %d organizations that were read", n, w.requests(sandbox.OpListDiscoveryDomains))
			}
			w.active.Store(true)
			w.control(func(r *stored) { r.Paused = false })
			sc.Wake()
			w.drain(sc)
			w.wantFound(pendingDomains(w.sandbox)...)
			if n := w.requests(sandbox.OpListDiscoveryDomains); n != 30 {
				t.Errorf("%d pages were requested, want each once", n)
			}
		})
	}
}

// TestStoppedRunIsNotBegun: a run that is paused or postponed from the
// beginning gets no step, and begins once that is over.
func TestStoppedRunIsNotBegun(t *testing.T) {
	for name, control := range map[string]func(*stored){
		"paused":    pause,
		"postponed": func(r *stored) { r.NotBefore = start.Add(time.Hour) },
		"cancelled": cancel,
	} {
		t.Run(name, func(t *testing.T) {
			s := finding()
			w := s.world(t)
			w.control(control)
			sc := w.scanner(nil)
			for w.read(run0).Growing && w.sinceStart() < time.Hour-10*time.Second {
				w.round(sc)
			}
			if r := w.read(run0); w.requests() > 0 || r.Scan.Step != 1 {
				t.Errorf("%d requests, step %d", w.requests(), r.Scan.Step)
			}
			if name == "cancelled" {
				return
			}
			w.control(func(r *stored) { r.Paused = false })
			w.drain(sc)
			s.end(w)
			if late := w.sinceStart() - time.Hour; name == "postponed" && late > 20*time.Second {
				t.Errorf("it began and ended %v after its time", late)
			}
		})
	}
}

func (w *world) sinceStart() time.Duration {
	now, _ := w.Now(w.t.Context())
	return now.Sub(start)
}

// TestStepIsStoredOnce: two scanners make a step at the same time that reads other domains
// the second time. The rows are those of one of them.
func TestStepIsStoredOnce(t *testing.T) {
	w := newWorld(t)
	w.sandbox.AddDomain("org_1", sandbox.Domain{ID: "ord_1"})
	w.sandbox.AddDomain("org_1", sandbox.Domain{ID: "ord_2"})
	w.pending("org_1")
	other := w.scanner(nil)
	sab := &saboteur{at: 4, after: true}
	sab.act = func() {
		w.sandbox.RemoveDomain("org_1", "ord_1")
		w.sandbox.AddDomain("org_1", sandbox.Domain{ID: "ord_3"})
		w.until(other, func(r stored) bool { return r.Scan.Ended })
	}
	w.drain(w.scanner(sab))
	if sab.calls[sab.at] != "domains" {
		t.Fatalf("calls %q", sab.calls)
	}
	w.wantFound("org_1/ord_2", "org_1/ord_3")
	w.wantProgress(sweep.Progress{Organization: "org_1", Read: 1, Ended: true})
}

// meeting is an API during whose requests another scanner begins.
type meeting struct {
	scan.API
	w *world
}

func (m meeting) OrganizationsPage(ctx context.Context,
	from string) ([]apiclient.Listed[apiclient.Organization], string, error) {
	m.begin()
	return m.API.OrganizationsPage(ctx, from)
}

func (m meeting) DiscoveryDomainsPage(ctx context.Context,
	org, from string) ([]apiclient.Listed[apiclient.DiscoveryDomain], string, error) {
	m.begin()
	return m.API.DiscoveryDomainsPage(ctx, org, from)
}

// begin has a scanner begin a step, and die before its request is answered.
func (m meeting) begin() {
	sab := &saboteur{at: 4, dies: true}
	sc := scan.New(scan.Config{
		Tenant: tenant, Ledger: sabotagedLedger{sab, m.w.memory}, API: sabotagedAPI{sab, m.API},
		Requests: map[ledger.Kind]scan.Request{handlers.Verify: scan.Pending{}}, Active: func() bool { return true },
	})
	for range 3 {
		sc.Round(m.w.t.Context())
	}
}

// TestScannersThatMeet: scanners that begin a step while another one makes it do not keep
// that from it.
func TestScannersThatMeet(t *testing.T) {
	w := newWorld(t)
	var want []string
	for i := range 12 {
		d := w.sandbox.AddDomain(fmt.Sprintf("org_%d", i%2), sandbox.Domain{ID: fmt.Sprintf("ord_%d", i)})
		want = append(want, fmt.Sprintf("org_%d/%s", i%2, d.ID))
	}
	w.api = meeting{w.api, w}
	w.pending("")
	w.scanned()
	w.wantFound(want...)
	w.wantProgress(sweep.Progress{Read: 2, Ended: true})
	if strings.Contains(w.log.String(), "waits") {
		t.Errorf("log:\n%s", w.log.String())
	}
}

var _ scan.Ledger = (*memory)(nil)
