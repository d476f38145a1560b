package tasks_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"orgops/internal/sandbox"
	"orgops/tasks"
)

// dice are thrown by the sandbox's goroutines.
type dice struct {
	mu sync.Mutex
	r  *rand.Rand
}

func (d *dice) below(p float64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.r.Float64() < p
}

// with is the fault, met by chance.
func (d *dice) with(p float64, f sandbox.Fault) sandbox.Fault {
	match := f.Match
	f.Match = func(r sandbox.Request) bool { return (match == nil || match(r)) && d.below(p) }
	return f
}

// addFaults has about one request in six meet something.
func (d *dice) addFaults(s *sandbox.Sandbox) {
	scope := `{"statusCode":403,"error":"Forbidden","message":"Insufficient scope, expected any of: x","errorCode":"insufficient_scope"}`
	for _, f := range []sandbox.Fault{
		status(429), status(429, "Retry-After", "3"), status(500), status(502), status(503, "Retry-After", "30"), status(504), status(408),
		status(401), {Status: 403, Body: scope},
		{Status: 500, Handled: true}, {Status: 504, Handled: true}, {HTML: true, Body: "bad gateway", Handled: true},
		{HTML: true, Status: 200, Body: "log in"}, {Status: 202, Body: "<html>", Handled: true, Match: answersWithABody},
		{DropBefore: true}, {DropAfter: true}, {DropAfter: true}, {Truncate: true}, {NotHTTP: true},
		{Wrong: func(d *sandbox.Domain) { d.ID = "another" }, Match: func(r sandbox.Request) bool { return r.Method == http.MethodGet }},
		{Status: 202, Body: `{"id":"another","name":"another"}`, Handled: true, Match: answersWithABody},
	} {
		s.AddFault(d.with(.008, f))
	}
	late := func(r sandbox.Request) bool { return r.Operation != sandbox.OpCreateTemplate } // time stands still for it: it could land at any
	for _, f := range []sandbox.Fault{{Latency: 3 * matrixTimeout, Match: late}, {AnswerLatency: 3 * matrixTimeout}} {
		s.AddFault(d.with(.002, f)) // costs real time
	}
	for _, f := range []sandbox.Fault{status(400), status(403), status(404), status(409), status(422), {Redirect: "/elsewhere"}} {
		s.AddFault(d.with(.002, f)) // settles a row
	}
}

func answersWithABody(r sandbox.Request) bool {
	return r.Operation != sandbox.OpRemoveOrganizationClients
}

// TestRandomFaults works through 2,000 rows of every kind with several workers,
// while each request may meet any fault, and holds what is told of each row against
// the tenant and its request log. ORGOPS_TEST_SEED throws the same dice again; in
// which order the workers take them differs.
func TestRandomFaults(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("ORGOPS_TEST_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("seed %d", seed)
	d := &dice{r: rand.New(rand.NewPCG(seed, 0))}
	w := newWorld(t, func(s *settings) {
		s.timeout, s.giveUp = matrixTimeout, 10*time.Minute
		s.tasks.MaxClientsPerRequest, s.sandbox.MaxClients = 20, 12
		s.sandbox.FlagDefault, s.sandbox.RepeatTemplateNames = sandbox.FlagTrue, true
		s.tasks.Pace = deaf{}
	})
	verify, update := w.manyVerify(600), w.manyUpdate(500)
	remove, create := w.manyRemove(600), w.manyCreate(300)
	d.addFaults(w.sandbox)
	w.work(4)

	counts := map[string]int64{}
	for _, run := range []string{verify, update, remove, create} {
		r := w.wantEnded(run)
		for outcome, n := range r.Counts {
			counts[r.Kind+" "+outcome] = n
		}
	}
	t.Logf("%d requests, %v", len(w.requests()), counts)
	w.holdVerify(verify)
	w.holdUpdate(update)
	w.holdRemove(remove)
	w.holdCreate(create)
}

// deaf is a pace that is told nothing.
type deaf struct{}

func (deaf) Block(context.Context, string, string) error { return nil }

func numbered(kind string, i int) string { return fmt.Sprintf("%s_%d", kind, i) }

// manyVerify are domains of which every fourth has no token in DNS.
func (w *world) manyVerify(n int) string {
	var rows []string
	for i := range n {
		d := w.sandbox.AddDomain(numbered("org_v", i), sandbox.Domain{ID: numbered("ord_v", i), Use: new(false)})
		if i%4 > 0 {
			w.sandbox.SetTXT(d.Host, d.TXT)
		}
		rows = append(rows, row("organization_id", numbered("org_v", i), "discovery_domain_id", d.ID))
	}
	return w.submit(tasks.TypeVerify, rows...)
}

func (w *world) holdVerify(run string) {
	fates := w.allFates(run)
	for i, f := range fates {
		d := w.domain(numbered("org_v", i), numbered("ord_v", i))
		if (d.Status == "verified") != f.well() || d.Use == nil || *d.Use {
			w.t.Errorf("verify %d is %s, its domain %s, use_for_organization_discovery %v", i, f, d.Status, d.Use)
		}
		if i%4 == 0 && f.well() {
			w.t.Errorf("verify %d is %s without a token in DNS", i, f)
		}
	}
}

func (w *world) manyUpdate(n int) string {
	var rows []string
	for i := range n {
		d := w.sandbox.AddDomain(numbered("org_u", i), sandbox.Domain{ID: numbered("ord_u", i), Status: "verified", Use: new(true)})
		rows = append(rows, row("organization_id", numbered("org_u", i), "discovery_domain_id", d.ID, "status", "pending", "use_for_organization_discovery", false))
	}
	return w.submit(tasks.TypeUpdate, rows...)
}

func (w *world) holdUpdate(run string) {
	said := map[string]bool{}
	for _, r := range w.requests(sandbox.OpUpdateDiscoveryDomain) {
		said[r.Domain] = said[r.Domain] || saidDone(r)
	}
	for i, f := range w.allFates(run) {
		d := w.domain(numbered("org_u", i), numbered("ord_u", i))
		set := d.Status == "pending" && d.Use != nil && !*d.Use
		if f.well() != set && !f.doubts() {
			w.t.Errorf("update %d is %s, and its domain set: %t", i, f, set)
		}
		if said[d.ID] && !f.well() {
			w.t.Errorf("update %d is %s, but the API had said that it is done", i, f)
		}
	}
}

// manyRemove are 20 clients to an organization, each with one that stays.
func (w *world) manyRemove(n int) string {
	var rows []string
	for i := range n {
		o := numbered("org_r", i/20)
		w.sandbox.AddClients(o, numbered("client", i), "stays")
		rows = append(rows, row("organization_id", o, "client_id", numbered("client", i)))
	}
	return w.submit(tasks.TypeRemove, rows...)
}

func (w *world) holdRemove(run string) {
	said, lost := map[string]bool{}, map[string]bool{}
	for _, r := range w.requests(sandbox.OpRemoveOrganizationClients) {
		for _, c := range r.Clients {
			said[c] = said[c] || saidDone(r)
			lost[c] = lost[c] || r.Handled && !saidDone(r)
		}
	}
	for i, f := range w.allFates(run) {
		left := w.sandbox.Clients(numbered("org_r", i/20))
		client := numbered("client", i)
		gone := !slices.Contains(left, client)
		if f.well() && !gone || said[client] && !f.well() || gone && !f.well() && !lost[client] {
			w.t.Errorf("remove %d is %s; gone: %t, said so: %t, an answer was lost: %t", i, f, gone, said[client], lost[client])
		}
		if !slices.Contains(left, "stays") {
			w.t.Errorf("organization of %d has lost a client that was not asked for", i)
		}
	}
}

func (w *world) manyCreate(n int) string {
	var rows []string
	for i := range n {
		rows = append(rows, strings.Replace(template, `"mdl"`, strconv.Quote(numbered("mdl", i)), 1))
	}
	return w.submit(tasks.TypeCreate, rows...)
}

func (w *world) holdCreate(run string) {
	ids := map[string][]string{}
	for _, m := range w.sandbox.Templates() {
		ids[m.Name] = append(ids[m.Name], m.ID)
	}
	for i, f := range w.allFates(run) {
		made := ids[numbered("mdl", i)]
		if len(made) > 1 || f.well() != (len(made) == 1) || len(made) == 1 && f.detail != made[0] {
			w.t.Errorf("create %d is %s, and there are %v", i, f, made)
		}
	}
}

// saidDone says whether the tenant has carried the request out and said so; a 202
// is a fault's.
func saidDone(r sandbox.Request) bool {
	return r.Handled && !r.Lost && slices.Contains([]int{http.StatusOK, http.StatusCreated, http.StatusNoContent}, r.Status)
}

// told is what the ledger says of a row.
type told struct{ outcome, detail string }

func (f told) well() bool     { return f.outcome == "done" || f.outcome == "unchanged" }
func (f told) doubts() bool   { return strings.Contains(f.detail, "all the same") }
func (f told) String() string { return f.outcome + " (" + f.detail + ")" }

func (w *world) allFates(run string) []told {
	w.t.Helper()
	r, err := w.ledger.Get(w.t.Context(), run)
	if err != nil {
		w.t.Fatal(err)
	}
	all := slices.Repeat([]told{{outcome: "done"}}, int(r.Total))
	for f, err := range w.ledger.Fates(w.t.Context(), run) {
		if err != nil {
			w.t.Fatal(err)
		}
		all[f.Item] = told{f.Outcome, f.Detail}
	}
	return all
}

// work drains the queue with several workers. The clock goes on when no task is due
// and none under way, so that hours pass in seconds.
func (w *world) work(workers int) {
	w.t.Helper()
	var all sync.WaitGroup
	changed := sync.NewCond(&w.queue.mu)
	busy := map[*queued]bool{}
	executions := 0
	for range workers {
		all.Go(func() {
			w.queue.mu.Lock()
			defer w.queue.mu.Unlock()
			for {
				n, left := w.due(busy)
				if !left || executions > 50_000 {
					changed.Broadcast()
					return
				}
				if n == nil {
					changed.Wait()
					continue
				}
				executions++
				busy[n] = true
				retried := n.retried
				w.queue.mu.Unlock()
				err := w.mux.Deliver(w.t.Context(), asynq.NewTask(n.typ, n.payload), n.id, n.queue, retried)
				w.queue.mu.Lock()
				n.ended(err, w.clock.now())
				delete(busy, n)
				changed.Broadcast()
			}
		})
	}
	all.Wait()
	w.t.Logf("%d executions", executions)
}

// due is the task to run next, none where others have to come to their end first;
// left says whether there will be any. The queue is locked.
func (w *world) due(busy map[*queued]bool) (n *queued, left bool) {
	for _, q := range w.queue.tasks {
		if q.state != "" {
			continue
		}
		left = true
		if !busy[q] && (n == nil || q.at.Before(n.at)) {
			n = q
		}
	}
	if n == nil {
		return nil, left
	}
	if wait := n.at.Sub(w.clock.now()); wait > 0 {
		if len(busy) > 0 {
			return nil, true
		}
		w.clock.advance(wait)
	}
	return n, true
}

// ended does with the task what asynq does after an execution.
func (q *queued) ended(err error, now time.Time) {
	q.lastErr = err
	switch {
	case err == nil:
		q.state = "completed"
	case errors.Is(err, asynq.RevokeTask):
		q.state = "revoked"
	case errors.Is(err, asynq.SkipRetry):
		q.state = "archived"
	default:
		q.at = now.Add(tasks.RetryDelay(q.retried, err, nil)).Truncate(time.Second)
		if tasks.IsFailure(err) {
			q.retried++
		}
	}
}
