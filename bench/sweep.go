package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"orgops/internal/cli"
	"orgops/internal/intake"
	"orgops/internal/ledger"
	"orgops/internal/runs"
	"orgops/internal/sandbox"
	"orgops/internal/sweep"
)

// sweepLoad says what is swept.
type sweepLoad struct {
	Organizations int     `noenv:"true" default:"100000" help:"Organizations of the tenant, of one to three verified domains each."`
	Rate          int     `noenv:"true" default:"250" help:"Requests a second that the tenant allows, and at once; the sweep may use all of it."`
	Absent        float64 `noenv:"true" default:"1" help:"Domains whose tokens do not stand, in percent."`
	Servfail      float64 `noenv:"true" default:"0.5" help:"Domains that DNS answers with SERVFAIL for, in percent."`
	Kill          bool    `noenv:"true" help:"Kill the worker when two in five domains are looked at, and start it again."`
	NoLoop        bool    `noenv:"true" help:"Leave out the plain loop, which takes as long again."`
}

func (l sweepLoad) check() error {
	switch {
	case l.Organizations < 1 || l.Rate < 1:
		return cli.Usage(fmt.Errorf("organizations and rate: want 1 or more, got %d and %d", l.Organizations, l.Rate))
	case !(l.Absent >= 0 && l.Servfail >= 0 && l.Absent+l.Servfail <= 100):
		return cli.Usage(fmt.Errorf("absent and servfail: want 0 to 100 percent, and no more in all, got %v and %v", l.Absent, l.Servfail))
	}
	return nil
}

const (
	sweepRun = "sweep"
	// killedAt is the share of the rows that are settled when the worker is killed.
	killedAt = 0.4
	// sweepTooLong is beyond what the pace and a killed worker's leases take.
	sweepTooLong = time.Hour
)

// measureSweep sweeps the tenant with a worker, a process as it is shipped, and then
// with a plain loop.
func measureSweep(ctx context.Context, s *store, l sweepLoad, out *report, stderr io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, sweepTooLong)
	defer cancel()
	variants := []struct {
		name  string
		sweep func(context.Context, *store, sweepLoad, *tenant, io.Writer) (sweepResult, error)
	}{{variantOurs, sweepOurs}, {variantLoop, sweepPlainly}}
	if l.NoLoop {
		variants = variants[:1]
	}
	for _, v := range variants {
		fmt.Fprintf(stderr, "sweeping %d organizations at %d requests/s: %s\n", l.Organizations, l.Rate, titles[v.name])
		if err := s.empty(ctx); err != nil {
			return err
		}
		r, err := l.measure(ctx, stderr, func(t *tenant) (sweepResult, error) { return v.sweep(ctx, s, l, t, stderr) })
		if err != nil {
			return fmt.Errorf("%s: %w", titles[v.name], err)
		}
		r.Variant = v.name
		if err := out.sweep(r); err != nil {
			return err
		}
	}
	return nil
}

// measure has a fresh tenant swept, and adds what the tenant itself knows.
func (l sweepLoad) measure(ctx context.Context, stderr io.Writer, sweep func(*tenant) (sweepResult, error)) (r sweepResult, err error) {
	args := append(limited(l.Rate, l.Rate), "--remember=1000",
		fmt.Sprintf("--organizations=%d", l.Organizations), fmt.Sprintf("--absent=%g", l.Absent/100), fmt.Sprintf("--servfail=%g", l.Servfail/100))
	t, err := startTenant(stderr, args...)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	before, err := t.cpu()
	if err != nil {
		return r, err
	}
	if r, err = sweep(t); err != nil {
		return r, err
	}
	after, err := t.cpu()
	if err != nil {
		return r, err
	}
	r.CPU.Sandbox = (after - before).Seconds()
	counts, err := t.counts(ctx)
	r.Crowd, r.Counts, r.Rate = t.Crowd, counts, l.Rate
	r.PaceSeconds = max(0, float64(r.requests()-int64(l.Rate))/float64(l.Rate))
	return r, err
}

// counts is how often the tenant was asked for what.
func (t *tenant) counts(ctx context.Context) (c sandbox.Counts, err error) {
	body, err := t.get(ctx, "counts")
	if err == nil {
		err = json.Unmarshal(body, &c)
	}
	if err != nil {
		return c, fmt.Errorf("read the sandbox's counts: %w", err)
	}
	return c, nil
}

// sweepOurs has a worker carry out a sweep whose looks are not spread.
func sweepOurs(ctx context.Context, s *store, l sweepLoad, t *tenant, stderr io.Writer) (r sweepResult, err error) {
	redis := s.cpu(ctx)
	fleet, err := startFleet(ctx, s, 1, []served{{tenant: t, name: tenantName, rate: l.Rate, burst: l.Rate, sweepShare: 100}})
	defer func() { err = errors.Join(err, fleet.close()) }()
	if err != nil {
		return r, err
	}
	w := fleet[0]
	tick := time.Now().Unix()
	began := time.Now()
	taker := intake.New(s.admin, runs.New(s.admin))
	if _, _, err := taker.BeginSweep(ctx, ledger.NewRun{ID: sweepRun, Tenant: tenantName}, sweep.Order{Tick: tick}); err != nil {
		return r, err
	}
	if r.Killed = l.Kill; r.Killed {
		if err := w.killAt(ctx, s, int64(killedAt*float64(t.Crowd.Domains))); err != nil {
			return r, err
		}
	}
	run, err := ended(ctx, s, sweepRun, 50*time.Millisecond)
	if err != nil {
		return r, errors.Join(err, w.said())
	}
	r.Seconds = time.Since(began).Seconds()
	fmt.Fprintln(stderr, "the sweep has ended; comparing it with the tenant")
	if err := judged(ctx, s); err != nil {
		return r, errors.Join(err, w.said())
	}
	r.Judged = time.Since(began).Seconds() - r.Seconds
	r.RedisBytes = s.memory(ctx)
	r.CPU.Redis = (s.cpu(ctx) - redis).Seconds()
	if err := w.stop(); err != nil {
		return r, errors.Join(err, w.said())
	}
	r.CPU.Bench, r.Peak = w.cpu.Seconds(), float64(w.peak)/1e6
	return r, r.compare(ctx, s, t, run, tick)
}

// killAt kills the worker once so many rows are settled, and starts another.
func (w *shipped) killAt(ctx context.Context, s *store, settled int64) error {
	for ledger := runs.New(s.admin); ; {
		run, err := ledger.Get(ctx, sweepRun)
		if err != nil {
			return err
		}
		if run.Ended() {
			return errors.New("the sweep had ended before the worker was killed: take more organizations")
		}
		if run.Settled() >= settled {
			break
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return fmt.Errorf("%d of %d rows are settled: %w", run.Settled(), settled, err)
		}
	}
	if err := w.end(syscall.SIGKILL); err != nil {
		return err
	}
	return w.start()
}

// judged waits for the summary of the sweep.
func judged(ctx context.Context, s *store) error {
	for memories := sweep.NewStore(s.admin, tenantName); ; {
		value, err := memories.State(ctx, sweep.SummaryState)
		if err != nil {
			return err
		}
		var j sweep.Summary
		if value != nil && json.Unmarshal(value, &j) == nil && j.Run == sweepRun {
			return nil
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return fmt.Errorf("wait for the sweep's summary: %w", err)
		}
	}
}

// compare holds the run and the memories against the tenant's domains.
func (r *sweepResult) compare(ctx context.Context, s *store, t *tenant, run ledger.Run, tick int64) error {
	var err error
	if r.Seen, err = sweep.NewStore(s.admin, tenantName).Counts(ctx, tick); err != nil {
		return err
	}
	r.Rows, r.Outcomes = run.Total(), map[string]int64{}
	for outcome, rows := range run.Counts {
		r.Outcomes[string(outcome)] = rows
	}
	found, err := rowsFound(ctx, runs.New(s.admin), run)
	if err != nil {
		return err
	}
	body, err := t.get(ctx, "state")
	if err != nil {
		return err
	}
	var state sandbox.State
	if err := json.Unmarshal(body, &state); err != nil {
		return fmt.Errorf("read the sandbox's state: %w", err)
	}
	var ids []string
	for organization, domains := range state.Domains {
		for _, d := range domains {
			ids = append(ids, d.ID)
			if found[row{organization, d.ID}] == 0 {
				r.Missed++
			}
		}
	}
	for _, n := range found {
		r.Twice += int64(n - 1)
	}
	r.Unlooked, err = unlooked(ctx, sweep.NewStore(s.admin, tenantName), ids)
	return err
}

// rowsFound are the rows of the run, and how often each is among them.
func rowsFound(ctx context.Context, ledger *runs.Ledger, run ledger.Run) (map[row]int, error) {
	const page = 1000
	found := make(map[row]int, run.Total())
	for first := int64(0); first < run.Total(); first += page {
		rows, err := ledger.Rows(ctx, run.ID, first, page)
		if err != nil {
			return nil, err
		}
		for _, source := range rows {
			var of struct {
				Organization string `json:"organization_id"`
				Domain       string `json:"discovery_domain_id"`
			}
			if err := json.Unmarshal(source, &of); err != nil {
				return nil, fmt.Errorf("row of the sweep: %w", err)
			}
			found[row{of.Organization, of.Domain}]++
		}
	}
	return found, nil
}

// unlooked counts the domains of which it is not remembered that exactly one sweep
// has looked at them.
func unlooked(ctx context.Context, memories *sweep.Store, ids []string) (n int64, err error) {
	const readers = 8
	counts := make([]int64, readers)
	g, ctx := errgroup.WithContext(ctx)
	for at := range readers {
		g.Go(func() error {
			for i := at; i < len(ids); i += readers {
				value, err := memories.Domain(ctx, ids[i])
				if err != nil {
					return err
				}
				if value == nil {
					counts[at]++
					continue
				}
				memory, err := sweep.ReadState(value)
				if err != nil {
					return err
				}
				if memory.Sweeps != 1 {
					counts[at]++
				}
			}
			return nil
		})
	}
	err = g.Wait()
	for _, c := range counts {
		n += c
	}
	return n, err
}
