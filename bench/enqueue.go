package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

// enqueueRows is how many rows a round of enqueue has where nothing else is
// asked for, and dryRunRows a dry run.
const (
	enqueueRows = 1_000_000
	dryRunRows  = 10_000_000
)

// enqueue lets the producers take turns, round after round; each round begins
// with another one.
func enqueue(ctx context.Context, s *store, g grammar, out *report, stderr io.Writer) error {
	return withRows(g.rows(enqueueRows), func(file string) error {
		var results []enqueueResult
		producers := []string{variantOurs, variantPlain}
		for n := range g.Rounds {
			for i := range producers {
				name := producers[(n+i)%len(producers)]
				p := production{As: name, File: file, CPUProfile: profileName(g.Profile, name, n)}
				r, err := enqueueRound(ctx, s, p, g.rows(enqueueRows), stderr)
				if err != nil {
					return fmt.Errorf("round %d of %s: %w", n+1, name, err)
				}
				r.Round = n + 1
				if err := out.enqueueRound(r); err != nil {
					return err
				}
				results = append(results, r)
			}
		}
		return out.enqueueSummary(summarizeEnqueue(results))
	})
}

// dryRun measures the producer's reading alone, without a Redis.
func dryRun(ctx context.Context, g grammar, out *report, stderr io.Writer) error {
	if err := out.begin(); err != nil {
		return err
	}
	return withRows(g.rows(dryRunRows), func(file string) error {
		p := production{As: variantDryRun, File: file, CPUProfile: profileName(g.Profile, variantDryRun, 0)}
		r, err := runProducer(ctx, "", p, g.rows(dryRunRows), stderr)
		if err != nil {
			return err
		}
		r.Round = 1
		return out.enqueueRound(r)
	})
}

// withRows lets use have a file of rows of domains verify, the two ids.
func withRows(rows int, use func(file string) error) error {
	return withFile("domains.csv", func(w io.Writer) error {
		_, _ = io.WriteString(w, "organization_id,discovery_domain_id\n") // the buffer keeps its error
		random := rand.New(rand.NewPCG(1, 2))                             // the same rows for each producer
		var organization string
		for i := range rows {
			if i%10 == 0 {
				organization = randomID(random, "org_")
			}
			if _, err := fmt.Fprintf(w, "%s,%s\n", organization, randomID(random, "ord_")); err != nil {
				return err
			}
		}
		return nil
	}, use)
}

// withFile lets use have a file of that name that write has written.
func withFile(name string, write func(io.Writer) error, use func(file string) error) (err error) {
	dir, err := os.MkdirTemp("", "orgops-bench-")
	if err != nil {
		return fmt.Errorf("folder for the rows: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	file := filepath.Join(dir, name)
	f, err := os.Create(file)
	if err != nil {
		return fmt.Errorf("make the rows: %w", err)
	}
	w := bufio.NewWriter(f)
	if err := errors.Join(write(w), w.Flush(), f.Close()); err != nil {
		return fmt.Errorf("make the rows: %w", err)
	}
	return use(file)
}

// randomID is an id of 20 characters, as the service makes them: they do not compress.
func randomID(random *rand.Rand, prefix string) string {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	id := []byte(prefix)
	for range 16 {
		id = append(id, letters[random.IntN(len(letters))])
	}
	return string(id)
}

// enqueueRound measures one producer on an empty Redis.
func enqueueRound(ctx context.Context, s *store, p production, rows int, stderr io.Writer) (enqueueResult, error) {
	if err := s.empty(ctx); err != nil {
		return enqueueResult{}, err
	}
	cpu, memory := s.cpu(ctx), s.memory(ctx)
	r, err := runProducer(ctx, s.url, p, rows, stderr)
	r.CPU.Redis = (s.cpu(ctx) - cpu).Seconds()
	r.RedisBytes = float64(s.memory(ctx)-memory) / float64(rows)
	return r, err
}

// runProducer runs one producer in a process of its own, so that its memory is
// no one else's.
func runProducer(ctx context.Context, url string, p production, rows int, stderr io.Writer) (enqueueResult, error) {
	program, err := executable()
	if err != nil {
		return enqueueResult{}, err
	}
	child := exec.CommandContext(ctx, program, produceCommand, "--redis-url", url, "--rows", strconv.Itoa(rows),
		"--as", p.As, "--file", p.File, "--cpu-profile", p.CPUProfile)
	child.Stderr = stderr
	answer, err := child.Output()
	if err != nil {
		return enqueueResult{}, fmt.Errorf("the producer's process: %w", err)
	}
	var did produced
	if err := json.Unmarshal(answer, &did); err != nil {
		return enqueueResult{}, fmt.Errorf("the producer's answer: %w", err)
	}
	return enqueueResult{
		Variant: p.As, Rows: rows, Seconds: did.Seconds, PerSecond: float64(rows) / did.Seconds,
		CPU: cpu{Bench: did.CPU}, Peak: float64(did.Peak) / 1e6,
	}, nil
}

func profileName(dir, variant string, n int) string {
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, fmt.Sprintf("%s-%d.pprof", variant, n+1))
}
