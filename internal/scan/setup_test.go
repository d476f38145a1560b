package scan_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"orgops/apiclient"
	"orgops/internal/engine"
	"orgops/internal/ledger"
	"orgops/internal/redistest"
	"orgops/internal/sandbox"
	"orgops/internal/scan"
	"orgops/internal/sweep"
	"orgops/tasks/handlers"
)

func TestMain(m *testing.M) {
	redistest.Parallel(16)
	goleak.VerifyTestMain(m)
}

const (
	tenant  = ledger.Tenant("acme")
	recheck = ledger.Kind("domain:recheck")
	run0    = ledger.RunID("run0")
)

// start is when the clock of a world begins.
var start = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// world is a tenant with a ledger in memory, whose clock advances while scanners wait.
type world struct {
	*memory
	t       *testing.T
	sandbox *sandbox.Sandbox
	api     scan.API
	states  states
	active  atomic.Bool
	blocks  []string // operations
	log     bytes.Buffer
	timeout time.Duration
	request scan.Request // of sweeps; nil: as usual
}

// states are those of domains that have one.
type states map[string]bool

func (s states) Domain(_ context.Context, domain string) ([]byte, error) {
	if !s[domain] {
		return nil, nil
	}
	return []byte(`{"v":1}`), nil
}

func newWorld(t *testing.T) *world {
	t.Helper()
	sb := newSandbox(t)
	return newWorldOf(t, sb, newClient(t, sb))
}

func newWorldOf(t *testing.T, sb *sandbox.Sandbox, api scan.API) *world {
	w := &world{memory: newMemory(start), t: t, states: states{}, sandbox: sb, api: api}
	w.active.Store(true)
	return w
}

// inBubble runs a test of a world in a bubble.
func inBubble(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	sb := newSandbox(t)
	api := &briefAPI{Client: newClient(t, sb)}
	synctest.Test(t, func(t *testing.T) { test(t, newWorldOf(t, sb, api)) })
}

func newSandbox(t *testing.T) *sandbox.Sandbox {
	t.Helper()
	sb, err := sandbox.Start(sandbox.Options{Seed: 1, Resolvers: 1}) // no test needs its DNS
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sb.Close() })
	return sb
}

func newClient(t *testing.T, sb *sandbox.Sandbox) *apiclient.Client {
	t.Helper()
	client, err := apiclient.New(apiclient.Config{
		BaseURL: sb.BaseURL(), Timeout: 30 * time.Second, Tokens: apiclient.StaticToken(apiclient.NewSecret(sb.Token())),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseIdle)
	return client
}

// scanner returns a scanner of a worker whose calls the saboteur counts, if there is one.
func (w *world) scanner(sab *saboteur) *scan.Scanner {
	if sab == nil {
		sab = &saboteur{at: -1}
	}
	swept := w.request
	if swept == nil {
		swept = scan.Swept{States: w.states}
	}
	return scan.New(scan.Config{
		Tenant: tenant, Ledger: sabotagedLedger{sab, w.memory}, API: sabotagedAPI{sab, w.api},
		Requests: map[ledger.Kind]scan.Request{handlers.Verify: scan.Pending{}, recheck: swept},
		Active:   w.active.Load,
		Block: func(_ context.Context, operation, _ string) error {
			w.blocks = append(w.blocks, operation)
			return nil
		},
		Timeout: w.timeout,
		Logger:  slog.New(slog.NewTextHandler(&w.log, nil)),
	})
}

// pending creates run0: the pending domains of one organization, or of all.
func (w *world) pending(organization string) {
	w.t.Helper()
	progress, err := scan.PendingProgress(organization)
	if err != nil {
		w.t.Fatal(err)
	}
	w.create(run0, handlers.Verify, progress)
}

// sweep creates run0, a sweep.
func (w *world) sweep(o sweep.Order) {
	w.t.Helper()
	progress, err := scan.SweepProgress(o)
	if err != nil {
		w.t.Fatal(err)
	}
	w.create(run0, recheck, progress)
}

// round has a scanner make one round, and lets the time pass that it waits then.
func (w *world) round(s *scan.Scanner) time.Duration {
	after := s.Round(w.t.Context())
	w.advance(after)
	return after
}

// maxRounds is more rounds than any test needs.
const maxRounds = 5000

// drain has a scanner work until run0 is committed finally, or gone.
func (w *world) drain(s *scan.Scanner) {
	w.t.Helper()
	w.until(s, func(r stored) bool { return r.ID == "" || !r.Growing })
}

// until has a scanner work until run0 is so.
func (w *world) until(s *scan.Scanner, holds func(stored) bool) {
	w.t.Helper()
	for range maxRounds {
		if holds(w.read(run0)) {
			return
		}
		w.round(s)
	}
	r := w.read(run0)
	w.t.Fatalf("scan %+v, progress %s, cursor %s; log:\n%s", r.Scan, r.Scan.Progress, r.cursor, w.log.String())
}

// scanned has one scanner do everything.
func (w *world) scanned() {
	w.t.Helper()
	w.drain(w.scanner(nil))
}

// progress returns that of run0.
func (w *world) progress() (p sweep.Progress) {
	w.t.Helper()
	if err := json.Unmarshal(w.read(run0).Scan.Progress, &p); err != nil {
		w.t.Fatal(err)
	}
	return p
}

// named is the members of rows of both kinds.
type named struct {
	Organization string `json:"organization_id"`
	Domain       string `json:"discovery_domain_id"`
}

// names returns rows in the form organization/domain.
func names(t *testing.T, rows []ledger.FoundRow) (all []string) {
	t.Helper()
	for _, row := range rows {
		var n named
		if err := json.Unmarshal(row.Content, &n); err != nil {
			t.Fatal(err)
		}
		all = append(all, n.Organization+"/"+n.Domain)
	}
	return all
}

// all returns the rows of run0, committed or not.
func (r stored) all() []ledger.FoundRow { return slices.Concat(r.rows, r.found) }

// wantFound fails unless run0 has these rows, each once, and all committed.
func (w *world) wantFound(want ...string) {
	w.t.Helper()
	r := w.read(run0)
	if len(r.found) > 0 {
		w.t.Errorf("%d rows are not committed", len(r.found))
	}
	wantNames(w.t, names(w.t, r.rows), want)
}

func wantNames(t *testing.T, got, want []string) {
	t.Helper()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("rows (-want +got):\n%s", gocmp.Diff(want, got))
	}
}

// wantProgress fails unless that is run0's.
func (w *world) wantProgress(want sweep.Progress) {
	w.t.Helper()
	if got := w.progress(); got != want {
		w.t.Errorf("progress %+v, want %+v", got, want)
	}
}

// pendingDomains returns the pending domains of the tenant, in the same form.
func pendingDomains(sb *sandbox.Sandbox) (all []string) {
	for _, o := range sb.Organizations() {
		for _, d := range sb.Domains(o) {
			if d.Status == "pending" {
				all = append(all, o+"/"+d.ID)
			}
		}
	}
	return all
}

// refused returns the names and reasons of rows that were settled when they were found.
func (r stored) refused(t *testing.T) (ids, reasons []string) {
	t.Helper()
	for i, name := range names(t, r.all()) {
		row := r.all()[i]
		if row.Result.Outcome == "" {
			continue
		}
		if row.Result.Outcome != engine.Refused {
			t.Errorf("row %s is settled as %s", name, row.Result.Outcome)
		}
		_, id, _ := strings.Cut(name, "/")
		ids, reasons = append(ids, id), append(reasons, row.Result.Detail)
	}
	return ids, reasons
}

// requests returns the number of requests of these operations; none: of all.
func (w *world) requests(operations ...string) (n int) {
	for _, r := range w.sandbox.Requests() {
		if len(operations) == 0 || slices.Contains(operations, r.Operation) {
			n++
		}
	}
	return n
}

// errDead is the error of each call of a killed worker.
var errDead = errors.New("killed")

// saboteur counts the calls of a worker, and does something before or after one.
type saboteur struct {
	at    int // the number of the call; below 0: never
	after bool
	act   func()
	dies  bool // the worker: no later call has an effect, and this one no answer
	// fail returns the error of a call; nil: none fails.
	fail func(name string) error

	mu    sync.Mutex
	calls []string
	acted bool
	dead  bool
}

// call makes a call, unless the worker is dead.
func (s *saboteur) call(name string, f func() error) error {
	n := s.count(name)
	if s.fail != nil {
		if err := s.fail(name); err != nil {
			return err
		}
	}
	if err := s.maybe(n, false); err != nil {
		return err
	}
	err := f()
	if dead := s.maybe(n, true); dead != nil {
		return dead
	}
	return err
}

func (s *saboteur) count(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, name)
	return len(s.calls) - 1
}

func (s *saboteur) maybe(n int, after bool) error {
	s.mu.Lock()
	now := n == s.at && after == s.after
	if now {
		s.acted, s.dead = true, s.dies
	}
	dead := s.dead
	s.mu.Unlock()
	if now && s.act != nil {
		s.act()
	}
	if dead {
		return errDead
	}
	return nil
}

type sabotagedLedger struct {
	*saboteur
	ledger scan.Ledger
}

func (l sabotagedLedger) Now(ctx context.Context) (now time.Time, err error) {
	return l.ledger.Now(ctx)
}

func (l sabotagedLedger) OpenRuns(ctx context.Context, t ledger.Tenant) (runs []ledger.Run, err error) {
	err = l.call("list", func() error { runs, err = l.ledger.OpenRuns(ctx, t); return err })
	return runs, err
}

func (l sabotagedLedger) Get(ctx context.Context, id ledger.RunID) (run ledger.Run, err error) {
	err = l.call("get", func() error { run, err = l.ledger.Get(ctx, id); return err })
	return run, err
}

func (l sabotagedLedger) ScanCursor(ctx context.Context, run ledger.Run) (s ledger.Scan, cursor []byte, err error) {
	err = l.call("cursor", func() error { s, cursor, err = l.ledger.ScanCursor(ctx, run); return err })
	return s, cursor, err
}

func (l sabotagedLedger) AddStep(ctx context.Context, run ledger.Run, s ledger.ScanStep) (made bool, err error) {
	err = l.call("step", func() error { made, err = l.ledger.AddStep(ctx, run, s); return err })
	return made, err
}

func (l sabotagedLedger) NoteScan(ctx context.Context, run ledger.Run, note string, next time.Time) error {
	return l.call("note", func() error { return l.ledger.NoteScan(ctx, run, note, next) })
}

func (l sabotagedLedger) CommitFound(ctx context.Context, run ledger.Run) (now ledger.Run, left bool, err error) {
	err = l.call("commit", func() error { now, left, err = l.ledger.CommitFound(ctx, run); return err })
	return now, left, err
}

type sabotagedAPI struct {
	*saboteur
	api scan.API
}

func (a sabotagedAPI) OrganizationsPage(ctx context.Context,
	from string) (page []apiclient.Listed[apiclient.Organization], next string, err error) {
	err = a.call("organizations", func() error { page, next, err = a.api.OrganizationsPage(ctx, from); return err })
	return page, next, err
}

func (a sabotagedAPI) DiscoveryDomainsPage(ctx context.Context,
	org, from string) (page []apiclient.Listed[apiclient.DiscoveryDomain], next string, err error) {
	err = a.call("domains", func() error { page, next, err = a.api.DiscoveryDomainsPage(ctx, org, from); return err })
	return page, next, err
}

// cursorAttempts returns the attempts that the cursor counts.
func (r stored) cursorAttempts(t *testing.T) int {
	t.Helper()
	var c struct{ Attempts int }
	if len(r.cursor) > 0 {
		if err := json.Unmarshal(r.cursor, &c); err != nil {
			t.Fatal(err)
		}
	}
	return c.Attempts
}
