package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"orgops/dnscheck"
	"orgops/internal/cli"
)

// lookupLoad is how hard the server is asked.
type lookupLoad struct {
	Concurrency int `noenv:"true" default:"200" help:"Look-ups under way at a time, ours and dnsperf's."`
	Names       int `noenv:"true" default:"100000" help:"Names in the zone, asked for in turn."`
	Seconds     int `noenv:"true" default:"5" help:"Seconds of each round of each."`
}

func (l lookupLoad) check() error {
	if l.Concurrency < 1 || l.Names < 1 || l.Seconds < 1 {
		return cli.Usage(fmt.Errorf("concurrency, names and seconds: want 1 or more of each, got %d, %d and %d", l.Concurrency, l.Names, l.Seconds))
	}
	return nil
}

// transports are what is measured, each beside dnsperf over the same.
var transports = []string{"udp"}

// looker asks for the names for a while.
type looker interface {
	look(ctx context.Context, transport string) (lookupResult, error)
}

// lookups measures look-ups a second at an NSD on this machine. Per transport
// dnsperf and we take turns, round after round.
func lookups(ctx context.Context, g grammar, out *report, stderr io.Writer) (err error) {
	program, err := installed("dnsperf")
	if err != nil {
		return err
	}
	server, err := startNSD(ctx, g.Lookups.Names)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.stop()) }()
	theirs := dnsperf{program: program, server: server, load: g.Lookups}
	if err := out.begin(); err != nil {
		return err
	}
	for _, transport := range transports {
		fmt.Fprintf(stderr, "measuring look-ups over %s; %d rounds of twice %d s\n", transport, g.Rounds, g.Lookups.Seconds)
		var results []lookupResult
		for n := range g.Rounds {
			ours := checkerLoad{server: server, load: g.Lookups, profile: profileName(g.Profile, "lookups-"+transport, n)}
			turns := []struct {
				name string
				looker
			}{{variantOurs, ours}, {variantDnsperf, theirs}}
			for i := range turns {
				turn := turns[(n+i)%len(turns)]
				r, err := turn.look(ctx, transport)
				if err != nil {
					return fmt.Errorf("round %d over %s of %s: %w", n+1, transport, turn.name, err)
				}
				r.Variant, r.Transport, r.Round = turn.name, transport, n+1
				if err := out.lookupRound(r); err != nil {
					return err
				}
				results = append(results, r)
			}
		}
		if err := out.lookupSummary(summarizeLookups(transport, g.Lookups, theirs.options(transport), results)); err != nil {
			return err
		}
	}
	return nil
}

// checkerLoad is a Checker that is asked from as many goroutines as look-ups are to
// be under way.
type checkerLoad struct {
	server  *nameServer
	load    lookupLoad
	profile string
}

func (c checkerLoad) look(ctx context.Context, transport string) (result lookupResult, err error) {
	checker, err := c.server.checker(transport)
	if err != nil {
		return result, err
	}
	defer checker.Close()
	stopProfile, err := startProfile(c.profile)
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, stopProfile()) }()
	runtime.GC() // no round pays for what the one before has left

	var (
		looking         sync.WaitGroup
		next, good, bad atomic.Int64
		began, before   = time.Now(), ownCPU()
		end             = began.Add(time.Duration(c.load.Seconds) * time.Second)
	)
	for range c.load.Concurrency {
		looking.Go(func() {
			for time.Now().Before(end) && ctx.Err() == nil {
				host := lookupName(int(next.Add(1)) % c.load.Names)
				v, err := checker.Check(ctx, host, lookupToken)
				if err == nil && v.State == dnscheck.Present {
					good.Add(1)
				} else {
					bad.Add(1)
				}
			}
		})
	}
	looking.Wait()
	result = newLookupResult(int(good.Load()), int(bad.Load()), time.Since(began))
	result.CPU = (ownCPU() - before).Seconds()
	return result, ctx.Err()
}
