package tasks_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"orgops/apiclient"
	"orgops/internal/intake"
	"orgops/internal/pace"
	"orgops/internal/redistest"
	"orgops/internal/runs"
	"orgops/internal/sandbox"
	"orgops/tasks"
)

// interruption is a cancel, and what comes with it.
type interruption struct {
	name   string
	wait   time.Duration // passes at the call, as in a wait for a permit
	killed bool          // the worker dies there too
}

// TestRunCancelledAnywhere cancels the run before and after each call that a task
// makes to what it depends on. Where the worker dies there, or what it waits for
// takes long, nothing new is sent; what its rows are told to be is what the tenant
// shows.
func TestRunCancelledAnywhere(t *testing.T) {
	for _, i := range []interruption{
		{"at_once", 0, false},
		{"in_a_long_wait", 30 * time.Second, false},
		{"and_killed", 0, true},
		{"in_a_long_wait_and_killed", 30 * time.Second, true},
	} {
		t.Run(i.name, func(t *testing.T) {
			for _, s := range cancellable() {
				t.Run(s.name, func(t *testing.T) { cancelledAnywhere(t, s, i) })
				t.Run(s.name+"_begun_before", func(t *testing.T) { cancelledAnywhere(t, s.losingAWrite(), i) })
			}
		})
	}
}

// cancellable are the scenarios whose run is there before its first task is.
func cancellable() []scenario {
	return slices.DeleteFunc(scenarios(), func(s scenario) bool { return s.told == nil })
}

// losingAWrite is the scenario with its first write lost on its way.
func (s scenario) losingAWrite() scenario {
	begin := s.begin
	s.begin = func(w *world) {
		begin(w)
		w.sandbox.AddFault(sandbox.Fault{DropBefore: true, Count: 1, Match: func(r sandbox.Request) bool { return r.Method != http.MethodGet }})
	}
	return s
}

func cancelledAnywhere(t *testing.T, s scenario, i interruption) {
	calls := callsOf(t, s)
	for k, call := range calls {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d_%s_after_%t", k, call, after), func(t *testing.T) {
				w := s.world(t)
				before := 0
				w.saboteur.at, w.saboteur.after, w.saboteur.spare = k, after, !i.killed
				w.saboteur.act = func() {
					w.cancelRun()
					w.clock.advance(i.wait)
					before = len(w.requests())
				}
				w.drain()
				if !w.saboteur.done {
					t.Fatal("the call was not reached")
				}
				w.wantEnded("run0")
				s.told(w, i.killed)
				if i.wait > 0 || i.killed {
					w.wantNothingBegun(before)
				}
			})
		}
	}
}

// TestRunPausedAnywhere: nothing begins while it is paused, and resumed it ends
// as if nothing had been in the way.
func TestRunPausedAnywhere(t *testing.T) {
	for _, s := range cancellable() {
		t.Run(s.name, func(t *testing.T) {
			for k, call := range callsOf(t, s) {
				for _, after := range []bool{false, true} {
					t.Run(fmt.Sprintf("%d_%s_after_%t", k, call, after), func(t *testing.T) { pausedAt(t, s, k, after) })
				}
			}
		})
	}
}

func pausedAt(t *testing.T, s scenario, call int, after bool) {
	w := s.world(t)
	before := 0
	w.saboteur.at, w.saboteur.after, w.saboteur.spare = call, after, true
	w.saboteur.act = func() {
		if err := w.ledger.Pause(t.Context(), "run0"); err != nil && !errors.Is(err, runs.ErrEnded) {
			t.Error(err)
		}
		w.clock.advance(30 * time.Second)
		before = len(w.requests())
	}
	w.drain()
	w.wantNothingBegun(before)
	taker := intake.Intake{Ledger: w.ledger, Producer: tasks.NewProducer(w.queue, w.ledger)}
	if _, _, err := taker.Resume(t.Context(), "run0"); err != nil && !errors.Is(err, runs.ErrEnded) {
		t.Fatal(err)
	}
	w.drain()
	s.end(w)
	s.safe(w)
}

func (w *world) cancelRun() {
	w.t.Helper()
	if _, err := w.ledger.Cancel(w.t.Context(), "run0"); err != nil {
		w.t.Error(err)
	}
}

// wantNothingBegun holds that of the requests after the first so many none begins
// anything: to take back what is not proven, and to look, is finishing.
func (w *world) wantNothingBegun(before int) {
	w.t.Helper()
	for _, r := range w.requests()[before:] {
		takesBack := r.Operation == sandbox.OpUpdateDiscoveryDomain && strings.Contains(r.Body, `"status":"pending"`)
		if r.Method != http.MethodGet && !takesBack {
			w.t.Errorf("after the cancel: %s %s %s", r.Method, r.Path, r.Body)
		}
	}
}

// TestCancelAfterALostAnswer: the write's answer is lost, and the run cancelled
// before anybody has looked what became of it.
func TestCancelAfterALostAnswer(t *testing.T) {
	for name, lost := range map[string]sandbox.Fault{
		"landed":        {DropAfter: true},
		"never arrived": {DropBefore: true},
		"landed, 500":   {Status: http.StatusInternalServerError, Handled: true},
	} {
		for _, s := range cancellable() {
			t.Run(name+"/"+s.name, func(t *testing.T) {
				w := s.world(t)
				lost := lost
				var seen atomic.Bool // the answer, which could order the two, is lost
				lost.Count = 1
				lost.Match = func(r sandbox.Request) bool {
					if r.Method != http.MethodGet {
						seen.Store(true)
					}
					return r.Method != http.MethodGet
				}
				w.sandbox.AddFault(lost)
				for !seen.Load() && w.step() != nil {
					continue
				}
				w.cancelRun()
				before := len(w.requests())
				w.drain()
				w.wantEnded("run0")
				s.told(w, true) // of a removal nobody looks
				w.wantNothingBegun(before)
			})
		}
	}
}

// TestCancelAndAStaleRead: the PATCH has landed, and reads as if it had not.
func TestCancelAndAStaleRead(t *testing.T) {
	w := newWorld(t)
	w.proven(sandbox.Domain{Use: new(false)})
	w.lostPatch()
	run := w.submit(tasks.TypeVerify, verifyRow())
	w.step() // the look
	w.step() // the confirm whose answer is lost
	w.cancelRun()
	w.stale(0, func(d *sandbox.Domain) { d.Status = "pending" })
	w.step()
	w.wantFate(run, 0, "open", "cancelled", "being read again")
	w.drain()
	w.wantFate(run, 0, "done")
	w.wantStatus(org, dom, "verified")
}

// TestCancelAndAnotherFlag: the domain is verified, but not all that the row asked
// for is so any more, and is not set after a cancel.
func TestCancelAndAnotherFlag(t *testing.T) {
	for _, tt := range []struct {
		name, row, want string
	}{
		{"asked for", verifyRow("use_for_organization_discovery", true), "refused"},
		{"not asked for", verifyRow(), "done"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			w.proven(sandbox.Domain{Use: new(true)})
			w.lostPatch()
			run := w.submit(tasks.TypeVerify, tt.row)
			w.step() // the look
			w.step() // the confirm whose answer is lost
			w.cancelRun()
			d := w.domain(org, dom)
			d.Use = new(false) // by another
			w.sandbox.SetDomain(org, d)
			before := len(w.requests())
			w.drain()
			w.wantFate(run, 0, tt.want)
			w.wantStatus(org, dom, "verified")
			w.wantNothingBegun(before)
		})
	}
}

// TestCancelWithoutAnythingBegun: whoever takes up a task that a cancel has not
// settled, as of a PATCH that turned out never to have been sent, settles it.
func TestCancelWithoutAnythingBegun(t *testing.T) {
	w := newWorld(t)
	run := w.submit(tasks.TypeCreate, template)
	if _, err := w.ledger.Begin(t.Context(), run, 0, 0, "post", []byte("x"), nil); err != nil {
		t.Fatal(err)
	}
	w.cancelRun()
	if _, err := w.ledger.Begin(t.Context(), run, 0, 0, "post", nil, []byte("x")); err != nil {
		t.Fatal(err)
	}
	if n := w.step(); n.state != "revoked" {
		t.Errorf("the task is %q, %v; want it dropped", n.state, n.lastErr)
	}
	w.wantEnded(run)
	w.wantFate(run, 0, "cancelled")
	if strings.Contains(w.log.String(), "ERROR") || strings.Contains(w.log.String(), "WARN") {
		t.Errorf("logged %s", w.log.String())
	}
}

// TestPauseFinishesWhatHasBegun: it begins nothing, and loses sight of nothing.
func TestPauseFinishesWhatHasBegun(t *testing.T) {
	w := newWorld(t)
	w.proven(sandbox.Domain{Use: new(false)})
	w.lostPatch()
	run := w.submit(tasks.TypeVerify, verifyRow())
	w.step() // the look
	w.step() // the confirm whose answer is lost
	if err := w.ledger.Pause(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	w.drain()
	w.wantFate(run, 0, "done")
	w.wantStatus(org, dom, "verified")
}

// TestGivenUpWithARequestUnderWay: the reason says what may be so all the same.
func TestGivenUpWithARequestUnderWay(t *testing.T) {
	for _, tt := range []struct {
		name, operation string
		begin           func(*world)
		want            string
	}{
		{
			"verify", sandbox.OpUpdateDiscoveryDomain,
			func(w *world) {
				w.proven(sandbox.Domain{Use: new(false)})
				w.submit(tasks.TypeVerify, verifyRow())
			},
			"the domain may have been set to verified nevertheless: check the tenant's record, then retry the row; given up after 17 attempts",
		},
		{
			"create", sandbox.OpCreateTemplate,
			func(w *world) { w.submit(tasks.TypeCreate, template) },
			"the template may have been created nevertheless: check whether it exists, then retry the row; given up after 17 attempts",
		},
	} {
		for _, cancelled := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, cancelled %t", tt.name, cancelled), func(t *testing.T) {
				w := newWorld(t)
				tt.begin(w)
				var met atomic.Bool // the answer, which could order the two, is lost
				w.sandbox.AddFault(sandbox.Fault{Operation: tt.operation, Count: 1, DropAfter: true, Match: func(sandbox.Request) bool {
					met.Store(true)
					return true
				}})
				for !met.Load() {
					w.step()
				}
				if cancelled {
					w.cancelRun()
				}
				w.sandbox.AddFault(status(http.StatusServiceUnavailable))
				w.drain()
				w.wantEnded("run0")
				w.wantFate("run0", 0, "failed", tt.want)
			})
		}
	}
}

// TestGivenUpWithNothingUnderWay: the row had not begun, so nothing can be so.
func TestGivenUpWithNothingUnderWay(t *testing.T) {
	w := newWorld(t)
	w.proven(sandbox.Domain{Use: new(false)})
	run := w.submit(tasks.TypeVerify, verifyRow())
	f := status(http.StatusServiceUnavailable)
	f.Operation = sandbox.OpGetDiscoveryDomain
	w.sandbox.AddFault(f)
	w.drain()
	if _, detail := w.fate(run, 0); !strings.HasPrefix(detail, "given up") {
		t.Errorf("reason %q", detail)
	}
}

// lineGate is the pace, whose door for one operation the test opens; it counts the
// permits that were taken there and not used.
type lineGate struct {
	*pace.Limiter
	held   string // the operation
	came   chan struct{}
	door   chan struct{}
	unused chan struct{}
}

func (g lineGate) Wait(ctx context.Context, operation string) error {
	if operation == g.held {
		g.came <- struct{}{}
		<-g.door
	}
	return g.Limiter.Wait(ctx, operation)
}

func (g lineGate) Answered(ctx context.Context, operation string, status int, header http.Header) {
	if operation == g.held && status == 0 {
		g.unused <- struct{}{}
	}
	g.Limiter.Answered(ctx, operation, status, header)
}

// TestNothingIsSentOfWhatWaits: four handlers wait for their permits when the run
// is cancelled, or paused, and have them after a while.
func TestNothingIsSentOfWhatWaits(t *testing.T) {
	const waiting, rows = 4, 9
	cancelRun := func(o *office, run string) error { _, err := o.ledger.Cancel(t.Context(), run); return err }
	pauseRun := func(o *office, run string) error { return o.ledger.Pause(t.Context(), run) }
	own := func(i int) string { return fmt.Sprintf("org_%d", i) }
	domainRow := func(o *office, i int, more ...any) string {
		d := o.sandbox.AddDomain(own(i), sandbox.Domain{Use: new(false)})
		o.sandbox.SetTXT(d.Host, d.TXT)
		for j, m := range more {
			if pick, ok := m.(func(sandbox.Domain) string); ok {
				more[j] = pick(d)
			}
		}
		return row(append([]any{"organization_id", own(i), "discovery_domain_id", d.ID}, more...)...)
	}
	seen := func(o *office, i int) string {
		return domainRow(o, i, "verification_host", func(d sandbox.Domain) string { return d.Host }, "verification_txt", func(d sandbox.Domain) string { return d.TXT })
	}
	templateRow := func(_ *office, i int) string {
		return strings.Replace(template, `"mdl"`, fmt.Sprintf(`"mdl %d"`, i), 1)
	}
	for _, tt := range []struct {
		name, kind, held string
		row              func(o *office, i int) string
		stop             func(o *office, run string) error
	}{
		{"look's GET", tasks.TypeVerify, apiclient.OpGetDiscoveryDomain, func(o *office, i int) string { return domainRow(o, i) }, cancelRun},
		{"confirm's GET", tasks.TypeVerify, apiclient.OpGetDiscoveryDomain, seen, cancelRun},
		{"confirm's PATCH", tasks.TypeVerify, apiclient.OpUpdateDiscoveryDomain, seen, cancelRun},
		{"confirm's PATCH, paused", tasks.TypeVerify, apiclient.OpUpdateDiscoveryDomain, seen, pauseRun},
		{"update's PATCH", tasks.TypeUpdate, apiclient.OpUpdateDiscoveryDomain, func(o *office, i int) string {
			return domainRow(o, i, "use_for_organization_discovery", true)
		}, cancelRun},
		{"removal", tasks.TypeRemove, apiclient.OpRemoveOrganizationClients, func(o *office, i int) string {
			o.sandbox.AddClients(own(i), "client")
			return row("organization_id", own(i), "client_id", "client")
		}, cancelRun},
		{"template's POST", tasks.TypeCreate, apiclient.OpCreateTemplate, templateRow, cancelRun},
		{"template's POST, paused", tasks.TypeCreate, apiclient.OpCreateTemplate, templateRow, pauseRun},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := newOffice(t)
			slow := pace.Limit{Rate: pace.Rate{Count: 40, Per: time.Second}, Burst: 1}
			gate := lineGate{
				pace.New(pace.Config{Redis: redistest.New(t), Tenant: "default", Limit: slow}), tt.held,
				make(chan struct{}, rows), make(chan struct{}), make(chan struct{}, rows),
			}
			client, err := apiclient.New(apiclient.Config{
				BaseURL: o.sandbox.BaseURL(), Tokens: apiclient.StaticToken(apiclient.NewSecret(o.token)), Gate: gate,
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(client.CloseIdle)
			var lines []string
			for i := range rows {
				lines = append(lines, tt.row(o, i))
			}
			run := o.submit(tt.kind, lines...)
			o.open(func(c *tasks.Config) { c.API, c.Pace = client, gate })
			for range waiting {
				<-gate.came
			}
			if err := tt.stop(o, run); err != nil {
				t.Fatal(err)
			}
			o.clock.advance(2 * time.Second)
			close(gate.door)
			for range waiting {
				<-gate.unused
			}
			o.close()
			if sent := o.requests(tt.held); len(sent) > 0 {
				t.Errorf("sent all the same: %v", sent)
			}
			r, err := o.ledger.Get(t.Context(), run)
			if err != nil || r.Paused && r.Settled > 0 || !r.Paused && (!r.Ended() || r.Counts["cancelled"] != rows) {
				t.Errorf("run is %+v, %v", r, err)
			}
			for i := range r.Total {
				if kept := o.mark(run, i, "intent"); len(kept) > 0 {
					t.Errorf("row %d has begun: %s", i, kept)
				}
				if kept := o.mark(run, i, "post"); len(kept) > 0 {
					t.Errorf("row %d has begun: %s", i, kept)
				}
			}
		})
	}
}

// TestRunReplacedAnywhere cancels and deletes the run before and after each call that a
// task makes, and creates another one of the same id: the task, which is still at work or
// left in the queue, touches none of its rows.
func TestRunReplacedAnywhere(t *testing.T) {
	for _, s := range cancellable() {
		t.Run(s.name, func(t *testing.T) {
			for k, call := range callsOf(t, s) {
				for _, after := range []bool{false, true} {
					t.Run(fmt.Sprintf("%d_%s_after_%t", k, call, after), func(t *testing.T) { replacedAt(t, s, k, after) })
				}
			}
		})
	}
}

func replacedAt(t *testing.T, s scenario, call int, after bool) {
	w := s.world(t)
	kind, before := "", 0
	w.saboteur.at, w.saboteur.after, w.saboteur.spare = call, after, true
	w.saboteur.act = func() {
		r := w.ledgerRun("run0")
		w.cancelRun()
		if err := w.ledger.Delete(t.Context(), "run0"); errors.Is(err, runs.ErrOpen) {
			return // a request is under way, which has to be found out first
		} else if err != nil {
			t.Fatal(err)
		}
		kind = r.Kind
		if _, _, err := w.ledger.Create(t.Context(), runs.Run{ID: "run0", Kind: kind, Tenant: "default", Digest: "other"}); err != nil {
			t.Fatal(err)
		}
		rows := slices.Repeat([][]byte{[]byte(`{}`)}, int(r.Stored))
		if err := errors.Join(w.ledger.StoreRows(t.Context(), "run0", 0, rows), w.ledger.Seal(t.Context(), "run0", r.Stored)); err != nil {
			t.Fatal(err)
		}
		w.clock.advance(30 * time.Second) // what waited for a permit asks the ledger again
		before = len(w.requests())
	}
	w.drain()
	if kind == "" {
		return
	}
	if r := w.ledgerRun("run0"); r.Settled != 0 {
		t.Errorf("%d rows of the other run were settled: %v", r.Settled, r.Counts)
	}
	open, err := w.ledger.OpenRows(t.Context(), "run0", 1000)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range open {
		if row.Reason != "" {
			t.Errorf("row %d of the other run is open for %q", row.Item, row.Reason)
		}
	}
	w.wantNothingBegun(before)
}
