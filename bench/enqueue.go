package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os/exec"
	"strconv"
)

// enqueueRows is the default number of rows of a round of enqueue.
const enqueueRows = 1_000_000

// enqueue lets the producers take turns, round after round; each round begins
// with another one.
func enqueue(ctx context.Context, s *store, g grammar, out, stderr io.Writer) error {
	rows := g.rows(enqueueRows)
	file, err := s.file("domains.csv", func(w io.Writer) error { return writeRows(w, rows) })
	if err != nil {
		return err
	}
	var results []enqueueResult
	producers := []string{variantOurs, variantPlain}
	for n := range g.Rounds {
		for i := range producers {
			name := producers[(n+i)%len(producers)]
			r, err := enqueueRound(ctx, s, production{As: name, File: file, URL: s.url}, rows, stderr)
			if err != nil {
				return fmt.Errorf("round %d of %s: %w", n+1, name, err)
			}
			r.Round = n + 1
			if err := write(out, r); err != nil {
				return err
			}
			results = append(results, r)
		}
	}
	return write(out, summarizeEnqueue(results))
}

// writeRows writes rows of domains verify, the two ids.
func writeRows(w io.Writer, rows int) error {
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

// enqueueRound measures one producer on an empty Redis. It has a process of its own, so that its
// memory is no one else's.
func enqueueRound(ctx context.Context, s *store, p production, rows int,
	stderr io.Writer) (r enqueueResult, err error) {
	if err := s.empty(ctx); err != nil {
		return r, err
	}
	used, memory := s.cpu(ctx), s.memory(ctx)
	program, err := executable()
	if err != nil {
		return r, err
	}
	child := exec.CommandContext(ctx, program, produceCommand, "--rows", strconv.Itoa(rows),
		"--url", p.URL, "--as", p.As, "--file", p.File)
	child.Stderr = stderr
	answer, err := child.Output()
	if err != nil {
		return r, fmt.Errorf("the producer's process: %w", err)
	}
	var did produced
	if err := json.Unmarshal(answer, &did); err != nil {
		return r, fmt.Errorf("the producer's answer: %w", err)
	}
	return enqueueResult{
		Benchmark: "enqueue", Variant: p.As, Rows: rows, Seconds: did.Seconds, PerSecond: float64(rows) / did.Seconds,
		CPU: cpu{Bench: did.CPU, Redis: (s.cpu(ctx) - used).Seconds()}, Peak: float64(did.Peak) / 1e6,
		RedisBytes: float64(s.memory(ctx)-memory) / float64(rows),
	}, nil
}
