package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"time"

	"orgops/internal/pace"
	"orgops/internal/sandbox"
)

// contender is one way to get a round's rows verified, or to pass as many rows
// through the queue, with everything ready to begin.
type contender interface {
	// carryOut works through the rows, and returns how long that took from the
	// first one's start to the last one's end.
	carryOut(ctx context.Context) (time.Duration, error)
	close() error
}

// variant makes contenders. The rows are an input file, as [tenant.seed] makes
// them.
type variant struct {
	name    string
	prepare func(ctx context.Context, s *store, t *tenant, rows []byte) (contender, error)
}

func (g grammar) variants() []variant {
	if g.Verify.Paced {
		limit := pace.Limit{Rate: pace.Rate{Count: paceRate, Per: time.Second}, Burst: paceBurst}
		return []variant{{variantOurs, prepareOurs(limit)}}
	}
	return []variant{{variantOurs, prepareOurs(pace.Limit{})}, {variantNoop, prepareNoop}, {variantLoop, prepareLoop}}
}

// verifyRows is how many rows a round has where nothing else is asked for, and pacedRows
// how many if it is paced.
const (
	verifyRows = 3000
	pacedRows  = 160
)

// warmUp is the part of a round's rows that each variant does before anything
// is measured: scripts are loaded, memory is there, code has been run.
const warmUp = 4

// compare runs the variants in turn, round after round; each round begins
// with another one, so that none is always the first.
func compare(ctx context.Context, s *store, g grammar, out *report, stderr io.Writer) error {
	return withTenant(ctx, s, stderr, func(t *tenant) error { return g.rounds(ctx, s, t, out) })
}

func (g grammar) rounds(ctx context.Context, s *store, t *tenant, out *report) error {
	all, rows := g.variants(), g.rows(verifyRows)
	if g.Verify.Paced {
		rows = g.rows(pacedRows)
	}
	for _, v := range all {
		if _, err := round(ctx, s, t, v, max(rows/warmUp, 1), ""); err != nil {
			return fmt.Errorf("warm up %s: %w", v.name, err)
		}
	}
	var results []verifyResult
	for n := range g.Rounds {
		for i := range all {
			v := all[(n+i)%len(all)]
			r, err := round(ctx, s, t, v, rows, profileName(g.Profile, v.name, n))
			if err != nil {
				return fmt.Errorf("round %d of %s: %w", n+1, v.name, err)
			}
			r.Round = n + 1
			if err := out.round(r); err != nil {
				return err
			}
			results = append(results, r)
		}
	}
	if g.Verify.Paced {
		return nil
	}
	return out.summary(summarize(results))
}

func profileName(dir, variant string, n int) string {
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, fmt.Sprintf("%s-%d.pprof", variant, n+1))
}

// round measures one variant with fresh rows in an empty Redis.
func round(ctx context.Context, s *store, t *tenant, v variant, rows int, profile string) (result verifyResult, err error) {
	if err := s.empty(ctx); err != nil {
		return result, err
	}
	file, err := t.seed(ctx, "domains", rows)
	if err != nil {
		return result, err
	}
	c, err := v.prepare(ctx, s, t, file)
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	stopProfile, err := startProfile(profile)
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, stopProfile()) }()
	runtime.GC() // no round pays for what the one before has left

	asked, err := t.counts(ctx)
	if err != nil {
		return result, err
	}
	before, err := cpuNow(ctx, s, t)
	if err != nil {
		return result, err
	}
	took, err := c.carryOut(ctx)
	if err != nil {
		return result, err
	}
	after, err := cpuNow(ctx, s, t)
	if err != nil {
		return result, err
	}
	result = verifyResult{Variant: v.name, Rows: rows, Seconds: took.Seconds(), PerSecond: float64(rows) / took.Seconds(), CPU: after.minus(before)}
	if o, ok := c.(*ours); ok {
		result.Scripts = float64(o.worker.scripts.n.Load()) / float64(rows)
	}
	requests, err := t.counts(ctx)
	result.Requests = float64(sum(requests)-sum(asked)) / float64(rows)
	return result, err
}

// cpuNow is what each process has used so far.
func cpuNow(ctx context.Context, s *store, t *tenant) (cpu, error) {
	sandbox, err := t.cpu()
	return cpu{Bench: ownCPU().Seconds(), Redis: s.cpu(ctx).Seconds(), Sandbox: sandbox.Seconds()}, err
}

// startProfile writes a CPU profile to path, until it is stopped; none where
// path is empty.
func startProfile(path string) (stop func() error, err error) {
	if path == "" {
		return func() error { return nil }, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return nil, fmt.Errorf("folder of the profiles: %w", err)
	}
	file, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("profile: %w", err)
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		return nil, errors.Join(fmt.Errorf("profile: %w", err), file.Close())
	}
	return func() error {
		pprof.StopCPUProfile()
		return file.Close()
	}, nil
}

// sum returns how many requests a tenant was sent.
func sum(c sandbox.Counts) (n int64) {
	for _, t := range c.Requests {
		n += t.All
	}
	return n
}
