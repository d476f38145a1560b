package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"orgops/dnscheck"
	"orgops/internal/cli"
)

// proofLoad is what is proven in a round.
type proofLoad struct {
	Concurrency int `noenv:"true" default:"16" help:"Proofs under way at a time."`
	Names       int `noenv:"true" default:"2000" help:"Names, each in a zone of its own and proven once in each round."`
}

func (l proofLoad) check() error {
	if l.Concurrency < 1 || l.Names < 1 {
		return cli.Usage(fmt.Errorf("concurrency and names: want 1 or more of each, got %d and %d", l.Concurrency, l.Names))
	}
	return nil
}

// The variants' names: what a Checker knows of the way to a zone's name servers.
const (
	variantWarm = "warm_delegations"
	variantCold = "cold_delegations"
)

// proofs measures proofs in mode auto, rounds with and without known delegations
// taking turns.
func proofs(ctx context.Context, g grammar, out *report, stderr io.Writer) (err error) {
	w, err := openWorld(ctx, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	if err := out.begin(); err != nil {
		return err
	}
	fmt.Fprintf(stderr, "measuring proofs; %d rounds of twice %d\n", g.Rounds, g.Proofs.Names)
	for n := range g.Rounds {
		turns := []string{variantWarm, variantCold}
		for i := range turns {
			variant := turns[(n+i)%len(turns)]
			r, err := g.Proofs.round(ctx, w, variant)
			if err != nil {
				return fmt.Errorf("round %d, %s: %w", n+1, variant, err)
			}
			r.Round = n + 1
			if err := out.proofRound(r); err != nil {
				return err
			}
		}
	}
	return nil
}

// round proves each name once: with warm delegations by a Checker that has looked at
// all of them, with cold ones each by a new Checker.
func (l proofLoad) round(ctx context.Context, w *world, variant string) (proofResult, error) {
	if variant == variantCold {
		return l.prove(ctx, variant, func(host string) (dnscheck.Verdict, error) {
			checker, err := w.checker(dnscheck.ModeAuto)
			if err != nil {
				return dnscheck.Verdict{}, err
			}
			defer checker.Close()
			return checker.Prove(ctx, host, lookupToken)
		})
	}
	checker, err := w.checker(dnscheck.ModeAuto)
	if err != nil {
		return proofResult{}, err
	}
	defer checker.Close()
	if _, err := l.prove(ctx, variant, func(host string) (dnscheck.Verdict, error) { return checker.Check(ctx, host, lookupToken) }); err != nil {
		return proofResult{}, err
	}
	return l.prove(ctx, variant, func(host string) (dnscheck.Verdict, error) { return checker.Prove(ctx, host, lookupToken) })
}

func (l proofLoad) prove(ctx context.Context, variant string, prove func(host string) (dnscheck.Verdict, error)) (proofResult, error) {
	took := make([]time.Duration, l.Names)
	var next, bad atomic.Int64
	var proving sync.WaitGroup
	began := time.Now()
	for range l.Concurrency {
		proving.Go(func() {
			for {
				n := int(next.Add(1)) - 1
				if n >= l.Names || ctx.Err() != nil {
					return
				}
				start := time.Now()
				if present(prove(hostAt(n, false))) != nil {
					bad.Add(1)
				}
				took[n] = time.Since(start)
			}
		})
	}
	proving.Wait()
	return newProofResult(variant, took, int(bad.Load()), time.Since(began)), ctx.Err()
}

// proofResult is what one round came to.
type proofResult struct {
	Benchmark string  `json:"benchmark"` // "proofs"
	Variant   string  `json:"variant"`
	Round     int     `json:"round"`
	Proofs    int     `json:"proofs"`
	Bad       int     `json:"errors"` // verdicts other than present
	PerSecond float64 `json:"proofs_per_second"`
	P50       float64 `json:"p50_ms"`
	P99       float64 `json:"p99_ms"`
	about
}

func newProofResult(variant string, took []time.Duration, bad int, all time.Duration) proofResult {
	return proofResult{
		Benchmark: "proofs", Variant: variant, Proofs: len(took), Bad: bad, PerSecond: float64(len(took)-bad) / all.Seconds(),
		P50: milliseconds(quantile(took, 0.5)), P99: milliseconds(quantile(took, 0.99)),
	}
}

const proofLine = "%5v  %7v  %7v  %9v  %8v  %8v   %v\n"

func (r *report) proofRound(result proofResult) error {
	if r.json {
		result.about = r.about
		return r.encode(result)
	}
	if heading := "proofs in mode auto, how long each takes in ms"; r.heading != heading {
		r.heading = heading
		fmt.Fprintf(r.out, "\n%s\n", heading)
		fmt.Fprintf(r.out, proofLine, "ROUND", "PROOFS", "ERRORS", "PROOFS/S", "P50", "P99", "VARIANT")
	}
	_, err := fmt.Fprintf(r.out, proofLine, result.Round, result.Proofs, result.Bad,
		fmt.Sprintf("%.0f", result.PerSecond), fmt.Sprintf("%.2f", result.P50), fmt.Sprintf("%.2f", result.P99), titles[result.Variant])
	return err
}
