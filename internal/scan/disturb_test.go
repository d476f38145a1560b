package scan_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"orgops/apiclient"
	"orgops/internal/ledger"
	"orgops/internal/redistest"
	"orgops/internal/sandbox"
)

// callsOf returns the calls of an undisturbed scan.
func callsOf(t *testing.T, s scenario) []string {
	t.Helper()
	w, sab := s.world(t), &saboteur{at: -1}
	w.drain(w.worker(sab))
	return sab.calls
}

// anywhere calls test for a disturbance before and after each call of each scan, or at each
// third of these points. Calls that are made side by side come in any order.
func anywhere(t *testing.T, test func(t *testing.T, s scenario, w *world, sab *saboteur)) {
	t.Helper()
	eachScan(t, func(t *testing.T, s scenario) {
		point, every := len(s.name), redistest.Stride(3) // scans have different points
		for k, call := range callsOf(t, s) {
			for _, after := range []bool{false, true} {
				if point++; point%every != 0 {
					continue
				}
				t.Run(fmt.Sprintf("%d %s after %t", k, call, after), func(t *testing.T) {
					sab := &saboteur{at: k, after: after}
					test(t, s, s.world(t), sab)
					if !sab.acted {
						t.Errorf("call %d was not made", k)
					}
				})
			}
		}
	})
}

// TestKilledAnywhere kills the worker before and after each call, and has another one
// continue.
func TestKilledAnywhere(t *testing.T) {
	anywhere(t, func(_ *testing.T, s scenario, w *world, sab *saboteur) {
		w.kill(sab)
		w.scanned()
		s.end(w)
	})
}

// TestStoppedAnywhere has the worker stop before and after each call, and another one
// continue. No attempt is counted.
func TestStoppedAnywhere(t *testing.T) {
	anywhere(t, func(t *testing.T, s scenario, w *world, sab *saboteur) {
		stopping := w.worker(sab)
		sab.act = func() { close(stopping.stop) }
		for !sab.acted {
			w.round(stopping)
		}
		r := w.read(run0)
		if len(r.Scan.Note) > 0 || r.scan.Checkpoint.Attempts > 0 || r.scan.Phase == ledger.PhaseInProgress {
			t.Errorf("scan %+v, row %+v", r.Scan, r.scan)
		}
		w.scanned()
		s.end(w)
	})
}

// lapse makes the scan's row due again whose execution has not ended.
func (w *world) lapse() { w.advance(ledger.ExecutionLimit) }

// TestTwoWorkersAnywhere has another worker take the row over before and after each call of
// the first one, and do everything.
func TestTwoWorkersAnywhere(t *testing.T) {
	anywhere(t, func(_ *testing.T, s scenario, w *world, sab *saboteur) {
		sab.act = func() {
			w.lapse()
			w.scanned()
		}
		w.drain(w.worker(sab))
		s.end(w)
	})
}

// TestPausedAnywhere pauses the run before and after each call, and resumes it.
func TestPausedAnywhere(t *testing.T) {
	anywhere(t, func(t *testing.T, s scenario, w *world, sab *saboteur) {
		sab.act = func() { _ = w.Pause(t.Context(), tenant, run0) }
		of := w.worker(sab)
		for !sab.acted {
			w.round(of)
		}
		requests := w.requests()
		for range 30 {
			w.round(of)
		}
		if n := w.requests() - requests; n != 0 {
			t.Errorf("%d requests while paused", n)
		}
		_ = w.Resume(t.Context(), tenant, run0) // unless it has ended
		w.drain(of)
		s.end(w)
	})
}

// TestCancelledAnywhere: after a cancel no row is added, and the run ends.
func TestCancelledAnywhere(t *testing.T) {
	anywhere(t, func(t *testing.T, _ scenario, w *world, sab *saboteur) {
		rows := 0
		sab.act = func() {
			_ = w.Cancel(t.Context(), tenant, run0)
			rows = len(w.read(run0).rows)
		}
		w.drain(w.worker(sab))
		if r := w.read(run0); len(r.rows) != rows || r.Cancelled && !r.Ended() {
			t.Errorf("%d rows, %d when it was cancelled; run %+v", len(r.rows), rows, r.Run)
		}
	})
}

// TestDeletedAnywhere cancels and deletes the run before and after each call, and creates it again:
// it gets its own rows.
func TestDeletedAnywhere(t *testing.T) {
	anywhere(t, func(t *testing.T, s scenario, w *world, sab *saboteur) {
		first := w.read(run0)
		want := slices.Clone(s.rows)
		sab.act = func() {
			ctx := t.Context()
			_ = w.Cancel(ctx, tenant, run0)
			w.lapse()
			_, _ = w.Release(ctx, segment(first.Run, ledger.ScanSegment), ledger.Quota{})
			if err := w.Delete(ctx, tenant, run0); err != nil {
				t.Error(err)
			}
			w.create(first.Kind, first.Scan.Progress)
			if s.more != nil {
				want = append(want, s.more(w))
			}
		}
		of := w.worker(sab)
		for !sab.acted {
			w.round(of)
		}
		w.drain(of)
		w.wantFound(want...)
	})
}

// TestTrouble disturbs each request of a scan in turn, or each second one, once: the scan
// continues, and leaves nothing out.
func TestTrouble(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]sandbox.Fault{
		"throttled":    {Status: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"7"}}},
		"unauthorized": {Status: http.StatusUnauthorized},
		"lacks scope":  lacksScope,
		"lost":         {DropAfter: true},
	} {
		eachScan(t, func(t *testing.T, s scenario) {
			undisturbed := s.world(t)
			undisturbed.scanned()
			every := redistest.Stride(2)
			for k := (len(name) + len(s.name)) % every; k < undisturbed.requests(); k += every {
				t.Run(fmt.Sprint(name, " at request ", k), func(t *testing.T) {
					w := newWorld(t)
					fault.Skip, fault.Count = k, 1
					w.sandbox.AddFault(fault)
					s.begin(w)
					w.scanned()
					s.end(w)
				})
			}
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

func (*line) Answered(context.Context, string, int, http.Header, time.Duration) {}

func (l *line) Wait(context.Context, apiclient.Request) error {
	<-l.places
	if l.n++; l.n == l.at {
		l.act()
	}
	l.places <- struct{}{}
	return nil
}

// inLine has the requests of scans pass a line, which does something before the one of that number.
func (w *world) inLine(at int, act func()) {
	w.t.Helper()
	l := &line{places: make(chan struct{}, 1), at: at, act: act}
	l.places <- struct{}{}
	client, err := apiclient.New(apiclient.Config{
		BaseURL: w.sandbox.BaseURL(), Tokens: apiclient.StaticToken(apiclient.NewSecret(w.sandbox.Token())), Gate: l,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(client.CloseIdle)
	w.api = bound(client)
}

// TestPauseStopsRequests: of many requests that wait for their permits none is sent a second after
// the run was paused or cancelled. The rows of earlier answers are stored.
func TestPauseStopsRequests(t *testing.T) {
	for name, stop := range map[string]func(*ledger.Ledger, context.Context, ledger.Tenant, ledger.RunID) error{
		"paused": (*ledger.Ledger).Pause, "cancelled": (*ledger.Ledger).Cancel,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			for i := range 30 {
				w.sandbox.AddDomain(fmt.Sprintf("org_%02d", i), sandbox.Domain{ID: fmt.Sprintf("ord_%02d", i)})
			}
			w.inLine(1+10, func() {
				if err := stop(w.Ledger, t.Context(), tenant, run0); err != nil {
					t.Error(err)
				}
				time.Sleep(1100 * time.Millisecond) // the ledger's last answer is too old for a request
			})
			w.pending("")
			of := w.worker(nil)
			for range 20 {
				w.round(of)
			}
			if n := w.requests(sandbox.OpListDiscoveryDomains); n != 9 {
				t.Errorf("%d pages were requested, want the 9 before", n)
			}
			r := w.read(run0)
			if name == "cancelled" {
				if !r.Ended() || r.Rows != 0 {
					t.Errorf("run %+v", r.Run)
				}
				return
			}
			if len(r.rows) != 9 {
				t.Errorf("%d rows of 9 organizations that were read", len(r.rows))
			}
			if err := w.Resume(t.Context(), tenant, run0); err != nil {
				t.Fatal(err)
			}
			w.drain(of)
			w.wantFound(pendingDomains(w.sandbox)...)
			if n := w.requests(sandbox.OpListDiscoveryDomains); n != 30 {
				t.Errorf("%d pages were requested, want each once", n)
			}
		})
	}
}

// TestRedisAway has Redis refuse everything for a while, before and after each call of a scan.
func TestRedisAway(t *testing.T) {
	t.Parallel()
	anywhere(t, func(_ *testing.T, s scenario, w *world, sab *saboteur) {
		sab.act = func() {
			w.redis.SetError("LOADING Redis is loading the dataset in memory")
			time.AfterFunc(10*time.Millisecond, func() { w.redis.SetError("") })
		}
		w.drain(w.worker(sab))
		s.end(w)
	})
}
