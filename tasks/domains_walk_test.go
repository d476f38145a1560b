package tasks_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/hibiken/asynq"

	"orgops/apiclient"
	"orgops/internal/redistest"
	"orgops/internal/runs"
	"orgops/internal/sandbox"
	"orgops/tasks"
)

// walkPending begins run0: what is pending of one organization, or of all.
func (w *world) walkPending(organization string) {
	w.t.Helper()
	w.walkPendingAt(organization, tasks.ByRows)
}

func (w *world) walkPendingAt(organization string, priority tasks.Priority) {
	w.t.Helper()
	told, err := tasks.NewWalked(organization)
	if err != nil {
		w.t.Fatal(err)
	}
	r, _, err := w.ledger.Create(w.t.Context(), runs.Run{
		ID: "run0", Kind: tasks.TypeVerify, Tenant: "default", CreatedAt: w.clock.now(), Format: "jsonl", GiveUp: time.Hour, Priority: string(priority), Walk: &runs.Walk{Told: told},
	})
	if err == nil {
		err = tasks.NewProducer(w.enqueuer, w.ledger).Walk(w.t.Context(), tasks.Run{
			ID: r.ID, Kind: r.Kind, Tenant: r.Tenant, CreatedAt: r.CreatedAt, GiveUp: r.GiveUp, Generation: r.Generation, Priority: priority,
		}, 0)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) walked() tasks.Walked {
	w.t.Helper()
	r, err := w.ledger.Get(w.t.Context(), "run0")
	if err != nil {
		w.t.Fatal(err)
	}
	var told tasks.Walked
	if err := json.Unmarshal(r.Walk.Told, &told); err != nil {
		w.t.Fatal(err)
	}
	told.Task = 0 // which is as it comes
	return told
}

// found are the rows of run0, in the form organization/domain.
func (w *world) found() (rows []string) {
	w.t.Helper()
	r, err := w.ledger.Get(w.t.Context(), "run0")
	if err != nil {
		w.t.Fatal(err)
	}
	sources, err := w.ledger.Rows(w.t.Context(), "run0", 0, int(r.Stored))
	if err != nil {
		w.t.Fatal(err)
	}
	for _, source := range sources {
		var members struct {
			Organization string `json:"organization_id"`
			Domain       string `json:"discovery_domain_id"`
		}
		if err := json.Unmarshal(source, &members); err != nil {
			w.t.Fatal(err)
		}
		rows = append(rows, members.Organization+"/"+members.Domain)
	}
	return rows
}

// pending are the domains of the tenant that are pending, likewise.
func (w *world) pending() (rows []string) {
	for _, o := range w.sandbox.Organizations() {
		for _, d := range w.sandbox.Domains(o) {
			if d.Status == "pending" {
				rows = append(rows, o+"/"+d.ID)
			}
		}
	}
	return rows
}

// wantFound holds that run0 has these rows, each once, in whatever order.
func (w *world) wantFound(want []string) {
	w.t.Helper()
	got := w.found()
	slices.Sort(got)
	slices.Sort(want)
	if diff := gocmp.Diff(want, got); diff != "" {
		w.t.Errorf("rows (-want +got):\n%s", diff)
	}
}

// walkAlone runs the tasks of the walk and leaves those of the rows alone. It
// returns their ids and how many executions the walk took.
func (w *world) walkAlone() (rows []string, executions int) {
	w.t.Helper()
	for {
		for _, q := range append(w.queue.byType(tasks.TypeVerify), w.queue.byType(tasks.TypeRecheck)...) {
			if q.state == "" {
				q.state = "left alone"
				rows = append(rows, q.id)
			}
		}
		w.steps = 0
		if w.step() == nil {
			return rows, executions
		}
		executions++
	}
}

// slow is an API whose pages of organizations take longer than a task makes steps.
type slow struct {
	tasks.API
	clock *clock
}

const slowPage = 6 * time.Second

func (s slow) OrganizationsPage(ctx context.Context, from string) ([]apiclient.Listed[apiclient.Organization], string, error) {
	s.clock.advance(slowPage)
	return s.API.OrganizationsPage(ctx, from)
}

func (w *world) slowDown() {
	w.reboot(func(c *tasks.Config) { c.API = slow{c.API, w.clock} })
}

// atOnce is the walk with an API that is fast: one task makes all of its steps.
func (s scenario) atOnce() scenario {
	begin := s.begin
	s.name += "_at_once"
	s.begin = func(w *world) {
		begin(w)
		w.reboot(func(c *tasks.Config) { c.API = c.API.(slow).API })
	}
	return s
}

// walks are the walks of both kinds, in many executions and in one.
func walks() []scenario {
	return []scenario{walking(), walking().atOnce(), sweeping(), sweeping().atOnce()}
}

func eachWalk(t *testing.T, test func(t *testing.T, s scenario)) {
	t.Helper()
	for _, s := range walks() {
		t.Run(s.name, func(t *testing.T) { test(t, s) })
	}
}

// walking is a walk that finds two domains, whose records are published.
func walking() scenario {
	return scenario{
		name: "walk",
		begin: func(w *world) {
			for _, d := range []struct{ org, id, status string }{
				{"org_1", "ord_1", "pending"}, {"org_2", "ord_2", "verified"}, {"org_3", "ord_3", "pending"},
			} {
				record := w.sandbox.AddDomain(d.org, sandbox.Domain{ID: d.id, Status: d.status, Use: new(false)})
				w.sandbox.SetTXT(record.Host, record.TXT)
			}
			w.sandbox.AddOrganization("org_4", "")
			w.slowDown()
			w.walkPending("")
		},
		end: func(w *world) {
			if r := w.wantEnded("run0"); r.Total != 2 || r.Counts["done"] != 2 {
				w.t.Errorf("counts %v, want 2 done", r.Counts)
			}
			w.wantFound([]string{"org_1/ord_1", "org_3/ord_3"})
			if got, want := w.walked(), (tasks.Walked{Read: 4, Ended: true}); got != want {
				w.t.Errorf("told is %+v, want %+v", got, want)
			}
			w.wantStatus("org_1", "ord_1", "verified")
			w.wantStatus("org_3", "ord_3", "verified")
		},
		safe: func(*world) {},
		told: func(w *world, _ bool) {
			for i, row := range w.found() {
				org, id, _ := strings.Cut(row, "/")
				outcome, detail := w.fate("run0", int64(i))
				if d := w.domain(org, id); (outcome == "done") != (d.Status == "verified") {
					w.t.Errorf("row %d is %s (%s), its domain %s", i, outcome, detail, d.Status)
				}
			}
		},
	}
}

func TestWalk(t *testing.T) {
	s := walking()
	w := s.world(t)
	w.drain()
	s.end(w)
	if got := len(w.queue.byType(tasks.TypeWalk)); got != 2 {
		t.Errorf("%d tasks of the walk, want one for each step", got)
	}
	if got := len(w.requests(sandbox.OpGetDiscoveryDomain)); got != 2 {
		t.Errorf("%d records were read, want one for each proof and none for the looks", got)
	}
	if got := len(w.requests(sandbox.OpListOrganizations, sandbox.OpListDiscoveryDomains)); got != 1+4 {
		t.Errorf("the walk took %d requests, want one page of organizations and one for each", got)
	}
	before := len(w.writes())
	w.deliverAgain()
	s.end(w)
	if again := len(w.writes()) - before; again != 0 {
		t.Errorf("run again, the tasks wrote %d times", again)
	}
}

// TestWalkPutsItsRowsOnTheirLane: also those that a later step finds, of which only
// the walk's task knows the priority.
func TestWalkPutsItsRowsOnTheirLane(t *testing.T) {
	for priority, lane := range map[tasks.Priority]tasks.Lane{
		tasks.ByRows: tasks.Normal, tasks.NormalPriority: tasks.Normal, tasks.HighPriority: tasks.Fast,
	} {
		t.Run("priority "+string(priority), func(t *testing.T) {
			w := newWorld(t)
			for i := range 20 {
				w.sandbox.AddDomain(fmt.Sprintf("org_%02d", i), sandbox.Domain{ID: fmt.Sprintf("ord_%02d", i), Status: "pending"})
			}
			w.walkPendingAt("", priority)
			w.walkAlone()
			looks := w.queue.byType(tasks.TypeVerify)
			if len(looks) != 20 {
				t.Fatalf("%d looks, want 20", len(looks))
			}
			for _, q := range looks {
				if want := tasks.DNSQueue("default", lane); q.queue != want {
					t.Errorf("%s is in %s, want %s", q.id, q.queue, want)
				}
			}
		})
	}
}

func TestWalkKilledAnywhere(t *testing.T) {
	eachWalk(t, func(t *testing.T, s scenario) { stepInto(t, s, false) })
}

func TestWalkCancelledAnywhere(t *testing.T) {
	eachWalk(t, func(t *testing.T, s scenario) { stepInto(t, s, true) })
}

// TestWalkOfACancelledRun: nothing is found after the cancel, and what was found
// is told as what it has become.
func TestWalkOfACancelledRun(t *testing.T) {
	eachWalk(t, func(t *testing.T, s scenario) {
		for _, i := range []interruption{{"at_once", 0, false}, {"in_a_long_wait", 30 * time.Second, false}, {"and_killed", 0, true}} {
			t.Run(i.name, func(t *testing.T) { cancelledAnywhere(t, s, i) })
		}
	})
}

func TestWalkOfAPausedRun(t *testing.T) {
	eachWalk(t, func(t *testing.T, s scenario) {
		for k, call := range callsOf(t, s) {
			for _, after := range []bool{false, true} {
				t.Run(fmt.Sprintf("%d_%s_after_%t", k, call, after), func(t *testing.T) { pausedAt(t, s, k, after) })
			}
		}
	})
}

// TestWalkPausedStops: while the run is paused nothing is asked for.
func TestWalkPausedStops(t *testing.T) {
	eachWalk(t, func(t *testing.T, s scenario) {
		w := s.world(t)
		if err := w.ledger.Pause(t.Context(), "run0"); err != nil {
			t.Fatal(err)
		}
		w.drain()
		if n := len(w.requests()); n != 0 {
			t.Errorf("%d requests while it was paused", n)
		}
		if _, resumed, err := w.intake().Resume(t.Context(), "run0"); err != nil || !resumed {
			t.Fatal(resumed, err)
		}
		w.drain()
		s.end(w)
	})
}

func TestWalkInTrouble(t *testing.T) {
	for name, fault := range map[string]sandbox.Fault{
		"throttled":    status(http.StatusTooManyRequests, "Retry-After", "7"),
		"unavailable":  status(http.StatusServiceUnavailable),
		"unauthorized": status(http.StatusUnauthorized),
		"lacks_scope":  lacksScope,
		"lost":         {DropAfter: true, Match: func(r sandbox.Request) bool { return r.Method == http.MethodGet }},
		"cut":          {Truncate: true},
	} {
		t.Run(name, func(t *testing.T) {
			eachWalk(t, func(t *testing.T, s scenario) { eachRequest(t, s, fault, s.end) })
		})
	}
}

var lacksScope = sandbox.Fault{Status: http.StatusForbidden, Body: `{"statusCode":403,"error":"Forbidden","message":"Insufficient scope, expected any of: x","errorCode":"insufficient_scope"}`}

// TestWalkStandsByTheLedger: at each moment of its life either a task stands for the
// walk, or it has come to its end.
func TestWalkStandsByTheLedger(t *testing.T) {
	eachWalk(t, func(t *testing.T, s scenario) {
		w := s.world(t)
		w.saboteur.watch = func() {
			r, err := w.ledger.Get(t.Context(), "run0")
			if err != nil {
				t.Error(err)
				return
			}
			if lost, err := w.intake().WalkLost(t.Context(), r); err != nil || lost {
				t.Errorf("step %d: lost %v, %v", r.Walk.Step, lost, err)
			}
			if found, err := w.intake().Lost(t.Context(), r); err != nil || found.Lost > 0 {
				t.Errorf("step %d: %+v, %v", r.Walk.Step, found, err)
			}
		}
		w.drain()
		s.end(w)
	})
}

// TestWalkLostAnywhere loses every task after each execution, and repairs.
func TestWalkLostAnywhere(t *testing.T) {
	eachWalk(t, func(t *testing.T, s scenario) {
		for executions, through := 0, false; !through; executions++ {
			t.Run(fmt.Sprint(executions), func(t *testing.T) {
				w := s.world(t)
				for range executions {
					through = w.step() == nil
				}
				w.queue.lose()
				w.repair()
				w.repair() // there is nothing left to do
				w.drain()
				s.end(w)
			})
		}
	})
}

// TestWalkWithTwoTasks: of two tasks of a walk, as after a repair of what was not lost,
// the one that was enqueued for the later step goes on alone.
func TestWalkWithTwoTasks(t *testing.T) {
	w := newWorld(t)
	for i := range 300 {
		w.sandbox.AddOrganization(fmt.Sprintf("org_%d", i), "")
	}
	own := &meanwhile{API: w.config.API}
	other := w.config
	other.Now = func() time.Time { // its time is up after each step
		w.clock.advance(time.Hour)
		return w.clock.now()
	}
	start := w.clock.now()
	w.reboot(func(c *tasks.Config) {
		c.API = own
		c.Now = func() time.Time { return start } // and the first one's never
	})
	w.walkPending("")
	var next *queued
	own.do = func() {
		r, err := w.ledger.Get(t.Context(), "run0")
		if err == nil {
			err = tasks.NewProducer(w.queue, w.ledger).Walk(t.Context(), tasks.Run{
				ID: r.ID, Kind: r.Kind, Tenant: r.Tenant, CreatedAt: r.CreatedAt, GiveUp: r.GiveUp, Generation: r.First + 1,
			}, r.Walk.Step)
		}
		if err != nil {
			t.Error(err)
			return
		}
		repaired := w.queue.byType(tasks.TypeWalk)[1]
		if err := tasks.NewMux(other).Deliver(t.Context(), asynq.NewTask(repaired.typ, repaired.payload), repaired.id, repaired.queue, 0); err != nil {
			t.Error(err)
		}
		repaired.state = "completed"
		next = w.queue.byType(tasks.TypeWalk)[2]
	}
	w.step()
	r, err := w.ledger.Get(t.Context(), "run0")
	if err != nil || next == nil || next.id != tasks.WalkTaskID("run0", r.Walk.Step, r.First+1) || len(w.queue.byType(tasks.TypeWalk)) != 3 {
		t.Errorf("step %d, %v, tasks %d: want the second task alone to have gone on, with %+v", r.Walk.Step, err, len(w.queue.byType(tasks.TypeWalk)), next)
	}
	w.drain()
	if told := w.walked(); told.Read != 300 || !told.Ended {
		t.Errorf("told %+v", told)
	}
}

// TestWalkOfAThousand walks organizations whose numbers of domains are those at
// which pages end, and those of organizations too.
func TestWalkOfAThousand(t *testing.T) {
	w := newWorld(t)
	sizes := []int{0, 1, 2, 0, 3, 1, 0, 0}
	for i := range 1000 {
		o, n := fmt.Sprintf("org_%d", i), sizes[i%len(sizes)]
		switch i {
		case 0, 99, 100, 999:
			n = 100
		case 500:
			n = 101
		case 501:
			n = 250
		}
		w.sandbox.AddOrganization(o, "")
		for d := range n {
			status := "pending"
			if (i+d)%3 == 0 {
				status = "verified"
			}
			w.sandbox.AddDomain(o, sandbox.Domain{ID: fmt.Sprintf("ord_%d_%d", i, d), Domain: fmt.Sprintf("d%d.o%d.example.org", d, i), Status: status})
		}
	}
	w.walkPending("")
	before := len(w.requests())
	rows, executions := w.walkAlone()
	want := w.pending()
	w.wantFound(want)
	if len(rows) != len(want) || len(slices.Compact(slices.Sorted(slices.Values(rows)))) != len(want) {
		t.Errorf("%d tasks, want one for each of %d rows", len(rows), len(want))
	}
	if got := len(w.requests()) - before; got != 10+1000+1+2 {
		t.Errorf("%d requests, want one for each page: 10 of organizations, 1003 of domains", got)
	}
	if executions != 1 {
		t.Errorf("%d executions, want one where no time passes", executions)
	}
	r, err := w.ledger.Get(t.Context(), "run0")
	if err != nil || !r.Sealed || r.Total != int64(len(want)) {
		t.Errorf("sealed %v with %d rows (%v), want %d", r.Sealed, r.Total, err, len(want))
	}
}

func TestWalkOfOneOrganization(t *testing.T) {
	w := newWorld(t)
	w.sandbox.AddDomain("org_1", sandbox.Domain{ID: "ord_1"})
	w.sandbox.AddDomain("org_2", sandbox.Domain{ID: "ord_2"})
	w.sandbox.AddDomain("org_2", sandbox.Domain{ID: "ord_3"})
	w.walkPending("org_2")
	w.walkAlone()
	w.wantFound([]string{"org_2/ord_2", "org_2/ord_3"})
	if n := len(w.requests(sandbox.OpListOrganizations)); n != 0 {
		t.Errorf("organizations were listed %d times", n)
	}
}

// TestWalkThatFindsNothing ends its run at once.
func TestWalkThatFindsNothing(t *testing.T) {
	w := newWorld(t)
	w.sandbox.AddDomain("org_1", sandbox.Domain{Status: "verified"})
	w.walkPending("")
	w.drain()
	if r := w.wantEnded("run0"); r.Total != 0 {
		t.Errorf("%d rows", r.Total)
	}
}

// TestWalkLeavesOut: what cannot be read is told, and the rest is found.
func TestWalkLeavesOut(t *testing.T) {
	for _, test := range []struct {
		name         string
		organization string
		fault        sandbox.Fault
		path         string // of the requests at fault
		found        []string
		told         tasks.Walked // but for Ended
	}{
		{
			name: "an organization that never answers", fault: status(http.StatusServiceUnavailable), path: "/org_2/", found: []string{"org_1/ord_1", "org_3/ord_3"},
			told: tasks.Walked{Read: 2, Missed: 1, Why: "organization org_2: given up after 17 attempts"},
		},
		{
			name: "an organization that is refused", fault: status(http.StatusForbidden), path: "/org_2/", found: []string{"org_1/ord_1", "org_3/ord_3"},
			told: tasks.Walked{Read: 2, Missed: 1, Why: "organization org_2: "},
		},
		{
			name: "an organization that is gone", fault: status(http.StatusNotFound), path: "/org_2/", found: []string{"org_1/ord_1", "org_3/ord_3"},
			told: tasks.Walked{Read: 2, Gone: 1},
		},
		{
			name: "all organizations are gone", fault: status(http.StatusNotFound), path: "/discovery-domains",
			told: tasks.Walked{Missed: 3, Why: "organization org_"},
		},
		{
			name: "the one organization is not there", organization: "org_2", fault: status(http.StatusNotFound), path: "/org_2/",
			told: tasks.Walked{Organization: "org_2", Missed: 1, Why: "organization org_2: "},
		},
		{
			name: "the list is refused", fault: status(http.StatusForbidden), path: "/organizations",
			told: tasks.Walked{Early: "403"},
		},
		{
			name: "the list never answers", fault: status(http.StatusServiceUnavailable), path: "/organizations",
			told: tasks.Walked{Early: "given up after 17 attempts"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			for i := range 3 {
				w.sandbox.AddDomain(fmt.Sprintf("org_%d", i+1), sandbox.Domain{ID: fmt.Sprintf("ord_%d", i+1)})
			}
			test.fault.Match = func(r sandbox.Request) bool {
				return strings.HasSuffix(r.Path, test.path) || strings.HasSuffix(test.path, "/") && strings.Contains(r.Path, test.path)
			}
			w.sandbox.AddFault(test.fault)
			w.walkPending(test.organization)
			w.walkAlone()
			w.wantFound(test.found)
			got := w.walked()
			if !strings.Contains(got.Why, test.told.Why) || !strings.Contains(got.Early, test.told.Early) || (got.Early == "") != (test.told.Early == "") {
				t.Errorf("told %+v, want %+v", got, test.told)
			}
			got.Why, got.Early, test.told.Why, test.told.Early, test.told.Ended = "", "", "", "", true
			if got != test.told {
				t.Errorf("told %+v, want %+v", got, test.told)
			}
			r, err := w.ledger.Get(t.Context(), "run0")
			if err != nil || !r.Sealed || r.Total != int64(len(test.found)) {
				t.Errorf("sealed %v with %d rows, %v", r.Sealed, r.Total, err)
			}
		})
	}
}

// TestWalkGoesOnFromTrouble: whole outages, shorter than the attempts last, leave
// nothing out.
func TestWalkGoesOnFromTrouble(t *testing.T) {
	w := newWorld(t)
	for i := range 30 {
		w.sandbox.AddDomain(fmt.Sprintf("org_%d", i), sandbox.Domain{})
	}
	end := w.clock.now().Add(time.Hour)
	w.sandbox.AddFault(sandbox.Fault{Status: http.StatusBadGateway, Match: func(r sandbox.Request) bool {
		return r.Operation == sandbox.OpListDiscoveryDomains && w.clock.now().Before(end)
	}})
	w.walkPending("")
	w.walkAlone()
	w.wantFound(w.pending())
	if told := w.walked(); !told.Whole() || told.Read != 30 {
		t.Errorf("told %+v", told)
	}
}

// TestWalkBlocked: without the scope the pace is told, the run says why nothing
// moves, and once the scope is there the walk goes on.
func TestWalkBlocked(t *testing.T) {
	w := newWorld(t)
	w.sandbox.AddDomain("org_1", sandbox.Domain{ID: "ord_1"})
	lift := w.sandbox.AddFault(lacksScope)
	w.walkPending("")
	w.step()
	if !slices.Equal(w.blocks, []string{sandbox.OpListOrganizations}) {
		t.Errorf("the pace was told of %q", w.blocks)
	}
	r, err := w.ledger.Get(t.Context(), "run0")
	if err != nil || !strings.HasPrefix(r.Walk.Note, "blocked: ") || !r.Walk.Next.After(w.clock.now()) {
		t.Errorf("noted %q, next %s, %v", r.Walk.Note, r.Walk.Next, err)
	}
	lift()
	w.walkAlone()
	w.wantFound([]string{"org_1/ord_1"})
	if r, err = w.ledger.Get(t.Context(), "run0"); err != nil || r.Walk.Note != "" {
		t.Errorf("still noted %q, %v", r.Walk.Note, err)
	}
}

// meanwhile changes the tenant and has something else done between a page's answer
// and what is made of it, once.
type meanwhile struct {
	tasks.API
	mu sync.Mutex
	do func()
}

func (b *meanwhile) DiscoveryDomainsPage(ctx context.Context, org, from string) ([]apiclient.Listed[apiclient.DiscoveryDomain], string, error) {
	page, next, err := b.API.DiscoveryDomainsPage(ctx, org, from)
	b.mu.Lock()
	do := b.do
	b.do = nil
	b.mu.Unlock()
	if do != nil {
		do()
	}
	return page, next, err
}

// TestWalkedTwice: a step that two executions make at a time, and that reads
// otherwise the second time, is made once.
func TestWalkedTwice(t *testing.T) {
	w := newWorld(t)
	w.sandbox.AddDomain("org_1", sandbox.Domain{ID: "ord_1"})
	w.sandbox.AddDomain("org_1", sandbox.Domain{ID: "ord_2"})
	api := &meanwhile{API: w.config.API}
	w.config.API = api
	w.reboot()
	w.walkPending("org_1")
	q := w.queue.next()
	api.do = func() {
		w.sandbox.RemoveDomain("org_1", "ord_1")
		w.sandbox.AddDomain("org_1", sandbox.Domain{ID: "ord_3"})
		if err := w.mux.Deliver(t.Context(), asynq.NewTask(q.typ, q.payload), q.id, q.queue, 0); err != nil {
			t.Error(err)
		}
	}
	rows, _ := w.walkAlone()
	w.wantFound([]string{"org_1/ord_2", "org_1/ord_3"})
	if len(rows) != 2 {
		t.Errorf("tasks %q", rows)
	}
	if r, err := w.ledger.Get(t.Context(), "run0"); err != nil || !r.Sealed || r.Total != 2 || r.Walk.Step != 1 {
		t.Errorf("run %+v, %v", r, err)
	}
}

// circle is a list of organizations whose checkpoints come back, after some that do not.
type circle struct {
	tasks.API
	before, length int
	pages          int
}

func (c *circle) OrganizationsPage(_ context.Context, _ string) ([]apiclient.Listed[apiclient.Organization], string, error) {
	at := c.pages
	c.pages++
	if at >= c.before {
		at = c.before + (at-c.before)%c.length
	}
	return []apiclient.Listed[apiclient.Organization]{{Record: apiclient.Organization{ID: fmt.Sprint("org_", at)}}}, fmt.Sprint("checkpoint ", at), nil
}

func (c *circle) DiscoveryDomainsPage(_ context.Context, _, _ string) ([]apiclient.Listed[apiclient.DiscoveryDomain], string, error) {
	return nil, "", nil
}

func TestWalkInACircle(t *testing.T) {
	for _, c := range []circle{{before: 0, length: 1}, {before: 0, length: 7}, {before: 5, length: 3}} {
		t.Run(fmt.Sprintf("%d then %d", c.before, c.length), func(t *testing.T) {
			w := newWorld(t)
			api := c
			api.API, w.config.API = w.config.API, &api
			w.reboot()
			w.walkPending("")
			w.walkAlone()
			if told := w.walked(); !told.Ended || !strings.Contains(told.Early, "never ends") {
				t.Errorf("told %+v", told)
			}
			if most := 4 * (c.before + c.length + 1); api.pages > most {
				t.Errorf("%d pages were read, want %d at the most", api.pages, most)
			}
		})
	}
}

// TestWalkKeepsRecords: a look needs no request for a row that was found; a record
// that its look would refuse is left to it.
func TestWalkKeepsRecords(t *testing.T) {
	w := newWorld(t)
	w.sandbox.AddDomain("org_1", sandbox.Domain{ID: "ord_1"})
	w.sandbox.AddDomain("org_1", sandbox.Domain{ID: "ord_2", Domain: "example.org", Host: "_x.elsewhere.net"})
	w.walkPending("")
	w.walkAlone()
	kept := map[int64]bool{}
	for i := range int64(2) {
		kept[i] = len(w.mark("run0", i, tasks.RecordMark)) > 0
	}
	if want := map[int64]bool{0: true, 1: false}; !maps.Equal(kept, want) {
		t.Errorf("records are kept of %v, want %v", kept, want)
	}
	for _, q := range w.queue.byType(tasks.TypeVerify) {
		q.state = ""
	}
	w.step()
	w.step()
	w.wantFate("run0", 1, "refused", "not below its domain")
}

// TestWalkPayload: a task that cannot be read, or is another tenant's, says nothing
// of the run that it names.
func TestWalkPayload(t *testing.T) {
	for name, payload := range map[string]string{
		"no end":       `{"v":1,"run":"run0","created_at":"2026-11-20T12:00:00Z","step":0}`,
		"unknown":      `{"v":1,"run":"run0","created_at":"2026-11-20T12:00:00Z","step":0,"give_up_at":"2026-11-20T13:00:00Z","x":1}`,
		"rows":         `{"v":1,"run":"run0","item":0,"created_at":"2026-11-20T12:00:00Z","step":0,"give_up_at":"2026-11-20T13:00:00Z"}`,
		"other tenant": `{"v":1,"tenant":"acme","run":"run0","created_at":"2026-11-20T12:00:00Z","step":0,"give_up_at":"2026-11-20T13:00:00Z"}`,
		"negative":     `{"v":1,"run":"run0","created_at":"2026-11-20T12:00:00Z","step":-1,"give_up_at":"2026-11-20T13:00:00Z"}`,
		"no run":       `{"v":1,"run":"run1","created_at":"2026-11-20T12:00:00Z","step":0,"give_up_at":"2026-11-20T13:00:00Z"}`,
	} {
		t.Run(name, func(t *testing.T) {
			w := walking().world(t)
			err := w.mux.Deliver(t.Context(), asynq.NewTask(tasks.TypeWalk, []byte(payload)), "x", tasks.SweepQueue("default"), 0)
			if err == nil || !strings.HasPrefix(err.Error(), "invalid: ") {
				t.Errorf("%v, want it invalid", err)
			}
			if r, err := w.ledger.Get(t.Context(), "run0"); err != nil || !r.Walking() || r.Walk.Step != 0 || r.Walk.Note != "" {
				t.Errorf("run %+v, %v", r, err)
			}
		})
	}
}

// TestWalkOfRunsHandedIn: there is no walk through a run that a producer submits.
func TestWalkOfRunsHandedIn(t *testing.T) {
	w := newWorld(t)
	w.proven(sandbox.Domain{})
	w.submit(tasks.TypeVerify, verifyRow())
	err := tasks.NewProducer(w.queue, w.ledger).Walk(t.Context(), tasks.Run{ID: "run0", Kind: tasks.TypeVerify, Tenant: "default", CreatedAt: w.clock.now(), Generation: w.ledgerRun("run0").Generation}, 0)
	if err != nil {
		t.Fatal(err)
	}
	w.drain()
	w.wantEnded("run0")
	if q := w.queue.byType(tasks.TypeWalk); len(q) != 1 || q[0].state != "archived" {
		t.Errorf("the walk's task is %+v", q[0])
	}
}

// TestWalkPutsOff: organizations that cannot be read, and are all that is left of
// their page, do not keep the walk from the next page.
func TestWalkPutsOff(t *testing.T) {
	w := newWorld(t)
	for i := range 101 {
		w.sandbox.AddOrganization(fmt.Sprintf("org_%d", i), "")
	}
	fault := status(http.StatusServiceUnavailable)
	fault.Match = func(r sandbox.Request) bool {
		return slices.ContainsFunc([]string{"96", "97", "98", "99"}, func(n string) bool { return strings.Contains(r.Path, "/org_"+n+"/") })
	}
	w.sandbox.AddFault(fault)
	w.walkPending("")
	w.walkAlone()
	if told := w.walked(); told.Read != 97 || told.Missed != 4 || told.Early != "" {
		t.Errorf("told %+v, want 97 read and 4 missed", told)
	}
}

// TestWalkBlockedForLongerThanGiveUp: a row's time begins when it is found; also its
// looks are as close as those of a new one. A repair makes it no shorter.
func TestWalkBlockedForLongerThanGiveUp(t *testing.T) {
	const giveUp = time.Hour // see walkPending
	for _, repaired := range []bool{false, true} {
		t.Run(fmt.Sprintf("repaired %t", repaired), func(t *testing.T) {
			w := newWorld(t)
			redisTime := func() {}
			if repaired {
				mini := redistest.Mini(t)
				redisTime = func() { mini.SetTime(w.clock.now()) }
				redisTime()
			}
			w.sandbox.AddDomain("org_1", sandbox.Domain{ID: "ord_1"})
			lift := w.sandbox.AddFault(lacksScope)
			w.walkPending("")
			for begun := w.clock.now(); w.clock.now().Sub(begun) < 2*giveUp; {
				w.steps = 0
				w.step()
			}
			lift()
			if wait := w.queue.next().at.Sub(w.clock.now()); wait > 0 {
				w.clock.advance(wait)
			}
			redisTime()
			w.walkUntilFound()
			foundAt := w.clock.now()
			if repaired {
				w.clock.advance(time.Minute)
				w.queue.lose()
				if lost := w.repair(); lost != 1 {
					t.Fatalf("%d rows were lost, want 1", lost)
				}
			}
			looks := 0
			for w.step() != nil {
				if o, _ := w.fate("run0", 0); o == "open" {
					looks++
				}
			}
			if looks < 5 {
				t.Errorf("%d looks before the last, want some", looks)
			}
			w.wantFate("run0", 0, "expired")
			if had := w.clock.now().Sub(foundAt); had < giveUp {
				t.Errorf("expired %s after it was found, want %s at the least", had, giveUp)
			}
		})
	}
}

// walkUntilFound runs the tasks of the walk until it has ended, and not those of rows.
func (w *world) walkUntilFound() {
	w.t.Helper()
	rows, _ := w.walkAlone()
	for _, q := range w.queue.byType(tasks.TypeVerify) {
		if slices.Contains(rows, q.id) {
			q.state = ""
		}
	}
}

// slowing is an API of which no organization's domains can be read, until it answers
// some requests, and the others never.
type slowing struct {
	tasks.API
	mu      sync.Mutex
	slow    bool
	answers int // it still gives
}

func (a *slowing) answer() (answers, slow bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.answers--
	return a.answers >= 0, a.slow
}

func (a *slowing) DiscoveryDomainsPage(ctx context.Context, org, from string) ([]apiclient.Listed[apiclient.DiscoveryDomain], string, error) {
	switch answers, slow := a.answer(); {
	case answers:
		return a.API.DiscoveryDomainsPage(ctx, org, from)
	case !slow:
		return nil, "", &apiclient.Error{Status: http.StatusServiceUnavailable}
	}
	<-ctx.Done()
	return nil, "", ctx.Err()
}

// TestWalkKeepsWhatWasAnswered: a step that would outlive its task is made of what was
// answered in half of the task's time, and the others are asked again.
func TestWalkKeepsWhatWasAnswered(t *testing.T) {
	w := newWorld(t)
	for i := range 12 {
		w.sandbox.AddDomain(fmt.Sprintf("org_%d", i), sandbox.Domain{})
	}
	api := &slowing{API: w.config.API}
	w.config.API = api
	w.reboot()
	w.walkPending("")
	w.untilLate(12)
	api.slow, api.answers = true, 5
	q := w.queue.next()
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Second) // stands for the ten minutes
	defer cancel()
	if err := w.mux.Deliver(ctx, asynq.NewTask(q.typ, q.payload), q.id, q.queue, q.retried); err != nil {
		t.Errorf("the step was not made: %v", err)
	}
	q.state = "completed"
	if told := w.walked(); told.Read != 5 || told.Missed != 0 || told.Ended {
		t.Errorf("told %+v, want 5 read, none missed, and more to come", told)
	}
	api.answers = 7
	w.walkAlone()
	w.wantFound(w.pending())
	if told := w.walked(); !told.Whole() || told.Read != 12 {
		t.Errorf("told %+v, want 12 read", told)
	}
}

// untilLate runs the walk until n organizations are put off, and nothing else is left.
func (w *world) untilLate(n int) {
	w.t.Helper()
	for {
		_, _, _, _, cursor, err := w.ledger.WalkAt(w.t.Context(), "run0")
		if err != nil {
			w.t.Fatal(err)
		}
		var at struct {
			Through    bool
			Left, Late []any
		}
		if len(cursor) > 0 && json.Unmarshal(cursor, &at) != nil {
			w.t.Fatalf("cursor %s", cursor)
		}
		if at.Through && len(at.Left) == 0 && len(at.Late) == n {
			return
		}
		w.step()
	}
}
