package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"

	"orgops/internal/sandbox"
)

// contender is one way to get a round's rows verified, with everything ready to begin.
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

var variants = []variant{{variantOurs, prepareOurs}, {variantLoop, prepareLoop}}

// verifyRows is how many rows a round has where nothing else is asked for.
const verifyRows = 3000

// warmUp is the part of a round's rows that each variant does before anything
// is measured: scripts are loaded, memory is there, code has been run.
const warmUp = 4

// compare runs the variants in turn, round after round; each round begins
// with another one, so that none is always the first.
func compare(ctx context.Context, s *store, g grammar, out, stderr io.Writer) error {
	return withTenant(ctx, s, stderr, func(t *tenant) error { return g.rounds(ctx, s, t, out) })
}

func (g grammar) rounds(ctx context.Context, s *store, t *tenant, out io.Writer) error {
	all, rows := variants, g.rows(verifyRows)
	for _, v := range all {
		if _, err := round(ctx, s, t, v, max(rows/warmUp, 1)); err != nil {
			return fmt.Errorf("warm up %s: %w", v.name, err)
		}
	}
	var results []verifyResult
	for n := range g.Rounds {
		for i := range all {
			v := all[(n+i)%len(all)]
			r, err := round(ctx, s, t, v, rows)
			if err != nil {
				return fmt.Errorf("round %d of %s: %w", n+1, v.name, err)
			}
			r.Round = n + 1
			if err := write(out, r); err != nil {
				return err
			}
			results = append(results, r)
		}
	}
	return write(out, summarize(results))
}

// round measures one variant with fresh rows in an empty Redis.
func round(ctx context.Context, s *store, t *tenant, v variant, rows int) (result verifyResult, err error) {
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
	runtime.GC() // no round pays for what the one before has left

	asked, err := t.counts(ctx)
	if err != nil {
		return result, err
	}
	scripts := s.scripts(ctx)
	before, err := cpuNow(ctx, s, t, c)
	if err != nil {
		return result, err
	}
	took, err := c.carryOut(ctx)
	if err != nil {
		return result, err
	}
	after, err := cpuNow(ctx, s, t, c)
	if err != nil {
		return result, err
	}
	result = verifyResult{Benchmark: "verify", Variant: v.name, Rows: rows, Seconds: took.Seconds(),
		PerSecond: float64(rows) / took.Seconds(), CPU: after.minus(before)}
	if _, ok := c.(*ours); ok {
		result.Scripts = float64(s.scripts(ctx)-scripts) / float64(rows)
	}
	requests, err := t.counts(ctx)
	result.Requests = float64(sum(requests)-sum(asked)) / float64(rows)
	return result, err
}

// cpuNow is what each process has used so far.
func cpuNow(ctx context.Context, s *store, t *tenant, c contender) (cpu, error) {
	sandbox, err := t.cpu()
	own := processCPU(os.Getpid())
	if o, ok := c.(*ours); ok {
		own = o.cpu()
	}
	return cpu{Bench: own.Seconds(), Redis: s.cpu(ctx).Seconds(), Sandbox: sandbox.Seconds()}, err
}

// sum returns how many requests a tenant was sent.
func sum(c sandbox.Counts) (n int64) {
	for _, t := range c.Requests {
		n += t.All
	}
	return n
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
