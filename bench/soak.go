package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"orgops/internal/engine/kinds"
	"orgops/internal/intake"
	"orgops/internal/ledger"
	"orgops/internal/runs"
	"orgops/internal/sweep"
	"orgops/tasks"
)

// soakLoad is how long workers are loaded, and how.
type soakLoad struct {
	Minutes int           `noenv:"true" default:"60" help:"How long the load lasts."`
	Tenants int           `noenv:"true" default:"10" help:"Tenants, each with a sandbox of its own that allows 16 requests/s."`
	Every   time.Duration `noenv:"true" default:"1m" help:"How often is measured."`
	Keep    time.Duration `noenv:"true" default:"1m" help:"How long a run is kept after its end; 0: as usual, and what is left at the end is not measured."`
}

func (l soakLoad) check() error {
	if l.Minutes < 1 || l.Tenants < 1 || l.Every < time.Second || l.Keep < 0 {
		return fmt.Errorf("minutes, tenants: want 1 or more, got %d and %d; every: want 1s or more, got %s; keep: want 0 or more, got %s", l.Minutes, l.Tenants, l.Every, l.Keep)
	}
	return nil
}

const (
	soakWorkers = 2
	// soakRows is the number of rows of a file of a tenant unless another is given.
	soakRows = 150
	// soakOrganizations is how many organizations a tenant has besides those of the rows.
	soakOrganizations = 20
	// soakPause is the time between two single rows of a tenant, and between two readings of
	// all pages.
	soakPause, pagesPause = 2 * time.Second, 15 * time.Second
	soakSweepPause        = 5 * time.Minute
	// soakGiveUp is how long a row waits for a token that is never published.
	soakGiveUp = time.Minute
)

// soak is a load on workers, and its results.
type soak struct {
	load    soakLoad
	rows    int
	store   *store
	runs    *runs.Ledger
	intake  intake.Intake
	tenants []served
	workers fleet
	until   time.Time

	mu       sync.Mutex
	latest   string // run
	outcomes map[string]int64
	pages    int64
	slowest  time.Duration // page
	bad      []string      // pages that were not answered as they should be
}

// measureSoak loads workers, each a process as users run it, and reports whether their memory
// and that of Redis grow.
func measureSoak(ctx context.Context, s *store, l soakLoad, rows int, out *report, stderr io.Writer) (err error) {
	if err := s.empty(ctx); err != nil {
		return err
	}
	k := &soak{load: l, rows: rows, store: s, runs: runs.New(s.admin), outcomes: map[string]int64{}}
	k.intake = intake.New(s.admin, k.runs)
	defer func() {
		err = errors.Join(err, k.workers.close())
		for _, t := range k.tenants {
			err = errors.Join(err, t.tenant.close())
		}
	}()
	if err := k.start(ctx, stderr); err != nil {
		return err
	}
	r, err := k.measure(ctx, out, stderr)
	if err != nil {
		return errors.Join(err, k.workers.said())
	}
	return out.soak(r)
}

// start starts the sandboxes and the workers.
func (k *soak) start(ctx context.Context, stderr io.Writer) (err error) {
	for i := range k.load.Tenants {
		t, err := startTenant(stderr, append(limited(paceRate, paceBurst), "--remember=1000", fmt.Sprintf("--organizations=%d", soakOrganizations), "--absent=0.1")...)
		if err != nil {
			return err
		}
		k.tenants = append(k.tenants, served{tenant: t, name: tenantNumber(i), rate: paceRate, burst: paceBurst})
	}
	k.workers, err = startFleet(ctx, k.store, soakWorkers, k.tenants)
	if err != nil {
		return err
	}
	for _, w := range k.workers {
		if err := w.awaitReady(ctx); err != nil {
			return err
		}
	}
	return nil
}

// measure loads the workers, measures them meanwhile, and lists the keys that are left.
func (k *soak) measure(ctx context.Context, out *report, stderr io.Writer) (r soakResult, err error) {
	k.until = time.Now().Add(time.Duration(k.load.Minutes) * time.Minute)
	fmt.Fprintf(stderr, "%d tenants, loaded until %s\n", k.load.Tenants, k.until.Format(time.TimeOnly))
	g, loaded := errgroup.WithContext(ctx)
	for i := range k.tenants {
		for _, lane := range []func(context.Context, int) error{k.files, k.files, k.waiting, k.singles, k.sweeps} {
			g.Go(func() error { return lane(loaded, i) })
		}
	}
	g.Go(func() error { return k.readPages(loaded) })
	var samples []soakSample
	g.Go(func() (err error) { samples, err = k.samples(loaded, out); return err })
	if err := g.Wait(); err != nil {
		return r, err
	}
	r = k.result(samples)
	if k.load.Keep > 0 {
		fmt.Fprintln(stderr, "the load has ended; waiting until its runs are deleted")
		if r.Undeleted, err = k.awaitDeleted(ctx); err != nil {
			return r, err
		}
		if r.Left, err = k.store.families(ctx); err != nil {
			return r, err
		}
	}
	fmt.Fprintln(stderr, "measuring what a row takes that is kept")
	r.PerRow, err = k.perRow(ctx)
	return r, err
}

// files submits files of all kinds, one after another. Each time they name the same domains
// and clients, so that the tenant does not grow.
func (k *soak) files(ctx context.Context, i int) error {
	t := k.tenants[i].tenant
	domains, err := t.seed(ctx, "domains", k.rows)
	if err != nil {
		return err
	}
	seeded, err := rowsOf(bytes.NewReader(domains))
	if err != nil {
		return err
	}
	updates, err := updatesOf(seeded)
	if err != nil {
		return err
	}
	clients, err := t.seed(ctx, "clients", k.rows)
	if err != nil {
		return err
	}
	for {
		templates, err := t.get(ctx, "rows/templates.jsonl?n=3")
		if err != nil {
			return err
		}
		for _, file := range []struct {
			kind string
			rows []byte
		}{{tasks.TypeVerify, domains}, {tasks.TypeUpdate, updates}, {tasks.TypeRemove, clients}, {tasks.TypeCreate, templates}} {
			if !time.Now().Before(k.until) {
				return nil
			}
			if err := k.file(ctx, i, file.kind, file.rows); err != nil {
				return err
			}
		}
	}
}

// waiting submits domains whose tokens are never published, again and again.
func (k *soak) waiting(ctx context.Context, i int) error {
	rows, err := k.tenants[i].tenant.seed(ctx, "unpublished", max(k.rows/5, 1))
	for err == nil && time.Now().Before(k.until) {
		err = k.file(ctx, i, tasks.TypeVerify, rows)
	}
	return err
}

// file submits a file, and waits for the end of its run.
func (k *soak) file(ctx context.Context, i int, kind string, rows []byte) error {
	id := tasks.NewRunID(time.Now())
	run := ledger.NewRun{ID: ledger.RunID(id), Tenant: ledger.Tenant(k.tenants[i].name), Description: ledger.Description{KeepFor: k.load.Keep, GiveUp: soakGiveUp}}
	if _, err := k.intake.Submit(ctx, inputOf(kind, "rows", bytes.NewReader(rows)), run); err != nil {
		return fmt.Errorf("submit a file of %s: %w", kind, err)
	}
	k.mu.Lock()
	k.latest = id
	k.mu.Unlock()
	return k.ended(ctx, id)
}

// ended waits for the end of a run, and counts its rows.
func (k *soak) ended(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, tooLong)
	defer cancel()
	run, err := ended(ctx, k.store, id, time.Second)
	if err != nil {
		return fmt.Errorf("run %s: %w", id, err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for outcome, n := range run.Counts {
		k.outcomes[string(outcome)] += n
	}
	return nil
}

// singles submits rows one by one, updates and removals in turn.
func (k *soak) singles(ctx context.Context, i int) error {
	updates, removals, err := k.singleRows(ctx, i)
	if err != nil {
		return err
	}
	for n := 0; time.Now().Before(k.until); n++ {
		kind, rows := tasks.TypeUpdate, updates
		if n%2 == 1 {
			kind, rows = tasks.TypeRemove, removals
		}
		id, err := k.single(ctx, i, kind, rows[n/2%len(rows)], k.load.Keep)
		if err != nil {
			return err
		}
		if err := k.ended(ctx, id); err != nil {
			return err
		}
		if err := pause(ctx, soakPause); err != nil {
			return err
		}
	}
	return nil
}

// singleRows are rows of a tenant as services submit them.
func (k *soak) singleRows(ctx context.Context, i int) (updates, removals []json.RawMessage, err error) {
	for kind, to := range map[string]*[]json.RawMessage{"updates": &updates, "clients": &removals} {
		file, err := k.tenants[i].tenant.seed(ctx, kind, k.rows)
		if err != nil {
			return nil, nil, err
		}
		rows, err := csv.NewReader(bytes.NewReader(file)).ReadAll()
		if err != nil {
			return nil, nil, fmt.Errorf("read the seeded rows: %w", err)
		}
		for _, row := range rows[1:] {
			members := map[string]any{"organization_id": row[0], rows[0][1]: row[1]}
			if kind == "updates" {
				members["status"] = "pending"
			}
			content, err := json.Marshal(members)
			if err != nil {
				return nil, nil, err
			}
			*to = append(*to, content)
		}
	}
	return updates, removals, nil
}

// single submits a row as a producer does, but for how long it is kept.
func (k *soak) single(ctx context.Context, i int, kind string, row json.RawMessage, keep time.Duration) (id string, err error) {
	d := ledger.Description{Format: intake.FormatJSONL, KeepFor: keep}
	if kind == tasks.TypeRemove {
		d.Group, d.BatchWait = kinds.RemoveGroup(row), tasks.DefaultBatchWait
	}
	id = tasks.NewRunID(time.Now())
	_, _, err = k.runs.Core().SubmitRow(ctx, ledger.NewRun{ID: ledger.RunID(id), Tenant: ledger.Tenant(k.tenants[i].name), Kind: ledger.Kind(kind), Description: d}, row)
	return id, err
}

// sweeps submits a sweep of a tenant now and then, and deletes the sweep before.
func (k *soak) sweeps(ctx context.Context, i int) error {
	for last := ""; ; {
		now := time.Now()
		id := fmt.Sprintf("soak-%d-%d", i, now.Unix())
		if _, _, err := k.intake.BeginSweep(ctx, ledger.NewRun{ID: ledger.RunID(id), Tenant: ledger.Tenant(k.tenants[i].name)}, sweep.Order{Tick: now.Unix()}); err != nil {
			return err
		}
		if err := k.ended(ctx, id); err != nil {
			return err
		}
		if last != "" {
			if err := k.runs.Core().Delete(ctx, ledger.RunID(last)); err != nil {
				return err
			}
		}
		last = id
		left := time.Until(k.until)
		if err := pause(ctx, min(soakSweepPause, left)); err != nil {
			return err
		}
		if left <= soakSweepPause {
			return k.runs.Core().Delete(ctx, ledger.RunID(last))
		}
	}
}

// readPages reads all pages and metrics of each worker now and then.
func (k *soak) readPages(ctx context.Context) error {
	for time.Now().Before(k.until) {
		k.mu.Lock()
		latest := k.latest
		k.mu.Unlock()
		for _, w := range k.workers {
			for _, url := range []string{w.probes + "/metrics", w.probes + "/readyz", w.pages + "/tenants", w.pages + "/runs", w.pages + strings.TrimSuffix("/runs/"+latest, "/")} {
				_, status, took, err := get(ctx, url)
				if ctx.Err() != nil {
					return ctx.Err()
				}
				k.page(url, status, took, err)
			}
		}
		if err := pause(ctx, pagesPause); err != nil {
			return err
		}
	}
	return nil
}

// page counts a page that was read.
func (k *soak) page(url string, status int, took time.Duration, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.pages++
	k.slowest = max(k.slowest, took)
	switch {
	case err != nil:
		k.bad = append(k.bad, err.Error())
	case status != http.StatusOK:
		k.bad = append(k.bad, fmt.Sprintf("GET %s: status %d", url, status))
	}
}

// awaitDeleted waits until the runs of the load are deleted, and returns how many are not in
// time: a run is deleted up to three minutes after its retention, which are two upkeeps and
// the minute in which Redis may have lost its end.
func (k *soak) awaitDeleted(ctx context.Context) (left int, err error) {
	for late := time.Now().Add(k.load.Keep + 5*time.Minute); ; {
		ids, err := k.runs.IDs(ctx)
		if err != nil {
			return 0, err
		}
		if len(ids) == 0 || time.Now().After(late) {
			return len(ids), nil
		}
		if err := pause(ctx, time.Second); err != nil {
			return len(ids), err
		}
	}
}

// perRow measures the memory of a row in Redis once it has its result.
func (k *soak) perRow(ctx context.Context) (map[string]weight, error) {
	all := map[string]weight{}
	rows, _, err := k.singleRows(ctx, 0)
	if err != nil {
		return nil, err
	}
	n := 4 * k.rows
	all["single row"], err = k.weigh(ctx, n, func() error {
		var ids []string
		for n := range n {
			id, err := k.single(ctx, 0, tasks.TypeUpdate, rows[n%len(rows)], 0)
			if err != nil {
				return err
			}
			ids = append(ids, id)
		}
		for _, id := range ids {
			if err := k.ended(ctx, id); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	_, file, err := k.tenants[0].tenant.updates(ctx, n)
	if err != nil {
		return nil, err
	}
	all["row of a file"], err = k.weigh(ctx, n, func() error {
		id := tasks.NewRunID(time.Now())
		if _, err := k.intake.Submit(ctx, inputOf(tasks.TypeUpdate, "rows", bytes.NewReader(file)), ledger.NewRun{ID: ledger.RunID(id), Tenant: ledger.Tenant(k.tenants[0].name)}); err != nil {
			return err
		}
		return k.ended(ctx, id)
	})
	return all, err
}

// weigh measures the keys and memory that n rows leave in Redis, for each of them.
func (k *soak) weigh(ctx context.Context, n int, submit func() error) (weight, error) {
	before, err := k.store.families(ctx)
	if err != nil {
		return weight{}, err
	}
	if err := submit(); err != nil {
		return weight{}, err
	}
	after, err := k.store.families(ctx)
	if err != nil {
		return weight{}, err
	}
	for _, all := range []map[string]weight{before, after} { // asynq's tasks of failed rows go meanwhile
		maps.DeleteFunc(all, func(family string, _ weight) bool { return !strings.HasPrefix(family, "orgops:v2:") })
	}
	was, is := total(before), total(after)
	return weight{Keys: (is.Keys - was.Keys) / float64(n), Bytes: (is.Bytes - was.Bytes) / float64(n)}, nil
}
