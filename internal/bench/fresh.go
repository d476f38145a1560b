package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/hibiken/asynq"
	"golang.org/x/sync/errgroup"

	"orgops/internal/cli"
	"orgops/internal/pace"
	"orgops/internal/runs"
	"orgops/internal/sandbox"
	"orgops/tasks"
)

// What is measured is how long a record that stands by the time its domain is
// looked at takes to the PATCH. Each sample is a row whose token does not stand yet
// when it is submitted: it is looked at, and scheduled again; at some moment before
// that next look is due, by the ledger, the record is published. What counts is the
// time from when the look is due to when the sandbox has the PATCH.

const (
	// Between two samples passes a random time of twice that at the most: none waits
	// for another's calls, and they come at any moment of a second.
	sampleGap = 200 * time.Millisecond
	// A row of that age, somewhere between, is looked at again when it is 30 s old.
	youngestSample, oldestSample = 22 * time.Second, 29 * time.Second
	// publishedBefore is how long before its look is due a record stands at the
	// latest: what is measured is the worker, not the publishing.
	publishedBefore = 200 * time.Millisecond
	// The other domains were submitted between so long ago, in that many runs: as
	// many between a minute and two as between an hour and two.
	youngestOther, oldestOther = 10 * time.Second, 24 * time.Hour
	otherRuns                  = 20
	// neverPatched is when a PATCH that has not come is taken to be lost.
	neverPatched = time.Minute
)

// freshFlags are those of fresh.
type freshFlags struct {
	Samples int `noenv:"true" default:"300" help:"Domains that are measured, alone and beside the others."`
	Others  int `noenv:"true" default:"10000" help:"Other domains that are pending then."`
}

func (f freshFlags) check() error {
	switch {
	case f.Samples < 1:
		return cli.Usage(fmt.Errorf("samples: want 1 or more, got %d", f.Samples))
	case f.Others < 1:
		return cli.Usage(fmt.Errorf("others: want 1 or more, got %d", f.Others))
	}
	return nil
}

// fresh measures samples alone, and beside so many other pending domains.
func fresh(ctx context.Context, s *store, g grammar, out *report, stderr io.Writer) (err error) {
	program, err := executable()
	if err != nil {
		return err
	}
	t, err := startTenant(program, stderr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	var results []freshResult
	for _, others := range []int{0, g.Fresh.Others} {
		r, err := freshBeside(ctx, s, t, g.Fresh.Samples, others)
		if err != nil {
			return fmt.Errorf("beside %d others: %w", others, err)
		}
		results = append(results, r)
	}
	return out.fresh(results...)
}

// freshWorld is a worker with what goes on around it.
type freshWorld struct {
	tenant  *tenant
	worker  *worker
	ledger  *runs.Ledger
	watched *freshLedger
}

// freshBeside measures on an empty Redis, with domains that are new to the tenant.
func freshBeside(ctx context.Context, s *store, t *tenant, samples, others int) (result freshResult, err error) {
	if err := s.empty(ctx); err != nil {
		return result, err
	}
	file, err := t.seed(ctx, "domains", samples+others)
	if err != nil {
		return result, err
	}
	rows, err := rowsOf(bytes.NewReader(file))
	if err != nil {
		return result, err
	}
	if _, err := t.tell(command{Withdraw: true}); err != nil {
		return result, err
	}
	w := &freshWorld{tenant: t, watched: &freshLedger{samples: map[string]*sample{}, others: others, begun: make(chan struct{})}}
	if w.worker, err = newWorker(s, t.endpoint, w.watched, nil, pace.Limit{}); err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, w.worker.close()) }()
	w.ledger = runs.New(w.worker.redis)
	w.watched.Ledger = w.ledger
	if err := w.worker.start(); err != nil {
		return result, err
	}
	defer w.worker.stop()
	if err := w.handInOthers(ctx, rows[samples:]); err != nil {
		return result, err
	}
	if err := w.measure(ctx, rows[:samples]); err != nil {
		return result, err
	}
	measured, err := w.patched(ctx)
	if err != nil {
		return result, err
	}
	return newFreshResult(measured, others), nil
}

// handInOthers submits domains that stay pending, and waits until each has been
// looked at once: from then on they come back by their age.
func (w *freshWorld) handInOthers(ctx context.Context, rows []row) error {
	if len(rows) == 0 {
		return nil
	}
	size := (len(rows) + otherRuns - 1) / otherRuns
	n := 0
	for some := range slices.Chunk(rows, size) {
		age := time.Duration(float64(youngestOther) * math.Pow(float64(oldestOther)/float64(youngestOther), rand.Float64()))
		if err := w.handIn(ctx, "others-"+strconv.Itoa(n), some, time.Now().Add(-age)); err != nil {
			return err
		}
		n++
	}
	select {
	case <-w.watched.begun:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(tooLong):
		return fmt.Errorf("of %d other domains not all were looked at within %v", len(rows), tooLong)
	}
}

// handIn submits a run as part of a large one: not by the fast lane.
func (w *freshWorld) handIn(ctx context.Context, id string, rows []row, createdAt time.Time) error {
	kind, _ := tasks.KindOf(tasks.TypeVerify)
	run, _, err := w.ledger.Create(ctx, runs.Run{ID: id, Kind: kind.Name, Tenant: tenantName, CreatedAt: createdAt})
	if err != nil {
		return err
	}
	const notKnown = 0 // how many are coming
	submission, err := tasks.NewProducer(asynq.NewClientFromRedisClient(w.worker.redis), w.ledger).Begin(tasks.Run{ID: id, Kind: kind.Name, Tenant: tenantName, CreatedAt: createdAt, Generation: run.Generation, Rows: notKnown})
	if err != nil {
		return err
	}
	for i, r := range rows {
		source, err := json.Marshal(map[string]string{"organization_id": r.organization, "discovery_domain_id": r.domain})
		if err != nil {
			return err
		}
		parsed, err := kind.Parse(source, tasks.Defaults{})
		if err != nil {
			return err
		}
		if err := submission.Add(ctx, int64(i), source, parsed); err != nil {
			return err
		}
	}
	_, err = submission.Finish(ctx)
	return err
}

// measure hands the samples in, one after the other, and publishes each in its time.
func (w *freshWorld) measure(ctx context.Context, rows []row) error {
	publishing, ctx := errgroup.WithContext(ctx)
	for i, r := range rows {
		publishing.Go(func() error {
			return w.sample(ctx, "fresh-"+strconv.Itoa(i), r)
		})
		if err := pause(ctx, rand.N(2*sampleGap)); err != nil {
			break // a sample's error says more
		}
	}
	return publishing.Wait()
}

// sample hands one row in, and publishes its record before its second look.
func (w *freshWorld) sample(ctx context.Context, run string, r row) error {
	age := youngestSample + rand.N(oldestSample-youngestSample)
	one := w.watched.watch(run, r)
	if err := w.handIn(ctx, run, []row{r}, time.Now().Add(-age)); err != nil {
		return err
	}
	var due time.Time
	select {
	case due = <-one.scheduled:
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(tooLong):
		return fmt.Errorf("%s was not looked at within %v", run, tooLong)
	}
	if left := time.Until(due) - publishedBefore; left > 0 {
		if err := pause(ctx, rand.N(left)); err != nil {
			return err
		}
	}
	if _, err := w.tenant.tell(command{Publish: true, Organization: r.organization, Domain: r.domain}); err != nil {
		return err
	}
	w.watched.published(one, time.Now())
	return nil
}

// patched waits until the PATCH of each sample has arrived, and returns the samples.
func (w *freshWorld) patched(ctx context.Context) ([]sample, error) {
	ctx, cancel := context.WithTimeout(ctx, neverPatched)
	defer cancel()
	for {
		arrived, err := w.tenant.patches(ctx)
		if err != nil {
			return nil, err
		}
		samples, missing := w.watched.with(arrived)
		if missing == 0 {
			return samples, nil
		}
		if err := pause(ctx, time.Second); err != nil {
			return nil, fmt.Errorf("of %d published domains %d were not PATCHed: %w", len(samples), missing, err)
		}
	}
}

// patches are when each domain's first PATCH has arrived at the tenant.
func (t *tenant) patches(ctx context.Context) (arrived map[string]time.Time, err error) {
	answer, err := t.get(ctx, "requests?operation="+sandbox.OpUpdateDiscoveryDomain)
	if err != nil {
		return nil, fmt.Errorf("read the sandbox's log: %w", err)
	}
	arrived = map[string]time.Time{}
	for d := json.NewDecoder(bytes.NewReader(answer)); ; {
		var r sandbox.Request
		if err := d.Decode(&r); errors.Is(err, io.EOF) {
			return arrived, nil
		} else if err != nil {
			return nil, fmt.Errorf("read the sandbox's log: %w", err)
		}
		if _, again := arrived[r.Domain]; !again {
			arrived[r.Domain] = r.At
		}
	}
}

// sample is one row, and when what happened to it.
type sample struct {
	domain    string
	scheduled chan time.Time // gets when its second look is due

	due       time.Time // its second look, as the ledger says
	published time.Time
	look      time.Time // a worker has taken that up
	confirm   time.Time // and the confirm that this has enqueued
	patch     time.Time // has arrived
}

// freshLedger is the ledger, and takes the times at which samples are taken up.
type freshLedger struct {
	tasks.Ledger

	mu      sync.Mutex
	samples map[string]*sample // by run
	others  int                // rows that have not been looked at
	begun   chan struct{}      // closed once there are none
}

// watch makes a run of one row a sample.
func (l *freshLedger) watch(run string, r row) *sample {
	l.mu.Lock()
	defer l.mu.Unlock()
	one := &sample{domain: r.domain, scheduled: make(chan time.Time, 1)}
	l.samples[run] = one
	return one
}

// Standing is what a worker asks first of all about a task.
func (l *freshLedger) Standing(ctx context.Context, run, kind string, generation int, items []int64) ([]bool, map[string][]byte, string, error) {
	now := time.Now()
	l.mu.Lock()
	if one := l.samples[run]; one != nil && !one.due.IsZero() {
		switch {
		case one.look.IsZero():
			one.look = now
		case one.confirm.IsZero():
			one.confirm = now
		}
	}
	l.mu.Unlock()
	return l.Ledger.Standing(ctx, run, kind, generation, items)
}

// Looked says of a sample's first look when the second is due.
func (l *freshLedger) Looked(ctx context.Context, run string, item int64, generation int, reason string, next time.Time, evidence []byte, kept map[string][]byte) error {
	if err := l.Ledger.Looked(ctx, run, item, generation, reason, next, evidence, kept); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	one := l.samples[run]
	if one == nil {
		if l.others--; l.others == 0 {
			close(l.begun)
		}
		return nil
	}
	if one.due.IsZero() {
		one.due = next
		one.scheduled <- next
	}
	return nil
}

func (l *freshLedger) published(one *sample, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	one.published = at
}

// with returns the samples with the times of their PATCHes, and how many have none.
// One that was published too late, since the machine had stalled, is left out.
func (l *freshLedger) with(patches map[string]time.Time) (samples []sample, missing int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, one := range l.samples {
		if one.published.After(one.due) {
			continue
		}
		one.patch = patches[one.domain]
		if one.patch.IsZero() {
			missing++
		}
		samples = append(samples, *one)
	}
	return samples, missing
}
