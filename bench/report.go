package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"
)

// The variants' names, as JSON has them.
const (
	variantOurs   = "orgops"
	variantNoop   = "asynq_noop"
	variantLoop   = "plain_loop"
	variantPlain  = "asynq_enqueue"
	variantDryRun = "orgops_dry_run"
)

// titles are the variants' names for people.
var titles = map[string]string{
	variantOurs:   "orgops",
	variantNoop:   "asynq, no-op handler",
	variantLoop:   "plain loop",
	variantPlain:  "asynq.Client.Enqueue, 64 goroutines",
	variantDryRun: "orgops, dry run",
}

// What is aimed at.
const (
	aimRatio    = 0.7
	aimEnqueued = 100_000 // rows a second
	aimTimes    = 2       // as many as the plain loop
	aimPeak     = 64      // MB
	aimScripts  = 5.5     // a row
	aimRequests = 2.02    // a row of a file
)

// about is in every object, so that one alone can be understood.
type about struct {
	Command string  `json:"command"`
	Machine machine `json:"machine"`
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// cpu is processor time by process, in seconds; 0: not known.
type cpu struct {
	Bench   float64 `json:"bench"` // worker, server or loop, which run in this process; or the producer
	Redis   float64 `json:"redis"`
	Sandbox float64 `json:"sandbox"`
}

func (c cpu) minus(other cpu) cpu {
	return cpu{c.Bench - other.Bench, c.Redis - other.Redis, c.Sandbox - other.Sandbox}
}

// verifyResult is the result of a round of a variant.
type verifyResult struct {
	Benchmark string  `json:"benchmark"` // "verify"
	Variant   string  `json:"variant"`
	Round     int     `json:"round"`
	Rows      int     `json:"rows"`
	Seconds   float64 `json:"seconds"` // from the first start to the last end
	PerSecond float64 `json:"rows_per_second"`
	CPU       cpu     `json:"cpu_seconds"`
	// Scripts are those that Redis executed for a worker of ours, those of asynq and of idle
	// queues included.
	Scripts  float64 `json:"scripts_per_row,omitempty"`
	Requests float64 `json:"requests_per_row"` // to the tenant
	about
}

// verifySummary are the medians over the rounds.
type verifySummary struct {
	Benchmark string  `json:"benchmark"` // "verify_summary"
	Rounds    int     `json:"rounds"`
	Ours      float64 `json:"orgops_rows_per_second"`
	Noop      float64 `json:"asynq_noop_rows_per_second"`
	Loop      float64 `json:"plain_loop_rows_per_second"`
	// Ratio is ours to the plain loop: the median of the rounds' ratios, since
	// what else the machine does changes from round to round.
	Ratio float64 `json:"ratio"`
	about
}

func summarize(results []verifyResult) verifySummary {
	rates := map[string][]float64{}
	for _, r := range slices.SortedFunc(slices.Values(results), func(a, b verifyResult) int { return a.Round - b.Round }) {
		rates[r.Variant] = append(rates[r.Variant], r.PerSecond)
	}
	return verifySummary{
		Benchmark: "verify_summary", Rounds: len(rates[variantOurs]),
		Ratio: median(ratios(rates[variantOurs], rates[variantLoop])),
		Ours:  median(rates[variantOurs]), Noop: median(rates[variantNoop]), Loop: median(rates[variantLoop]),
	}
}

// enqueueResult is what one round of one producer came to.
type enqueueResult struct {
	Benchmark string  `json:"benchmark"` // "enqueue"
	Variant   string  `json:"variant"`
	Round     int     `json:"round"`
	Rows      int     `json:"rows"`
	Seconds   float64 `json:"seconds"`
	PerSecond float64 `json:"rows_per_second"`
	CPU       cpu     `json:"cpu_seconds"`
	// Peak is the most memory that the producer had resident, in MB; 0: not known.
	Peak float64 `json:"peak_mb"`
	// RedisBytes is the memory of a submitted row in Redis; 0: not known.
	RedisBytes float64 `json:"redis_bytes_per_row"`
	about
}

// enqueueSummary are the medians over the rounds, and the highest peak.
type enqueueSummary struct {
	Benchmark string  `json:"benchmark"` // "enqueue_summary"
	Rounds    int     `json:"rounds"`
	Ours      float64 `json:"orgops_rows_per_second"`
	Plain     float64 `json:"asynq_enqueue_rows_per_second"`
	Ratio     float64 `json:"ratio"` // ours to plain, the median of the rounds' ratios
	Peak      float64 `json:"orgops_peak_mb"`
	about
}

func summarizeEnqueue(results []enqueueResult) enqueueSummary {
	rates := map[string][]float64{}
	var peak float64
	for _, r := range results { // in each round there is one of either
		rates[r.Variant] = append(rates[r.Variant], r.PerSecond)
		if r.Variant == variantOurs {
			peak = max(peak, r.Peak)
		}
	}
	return enqueueSummary{
		Benchmark: "enqueue_summary", Rounds: len(rates[variantOurs]), Peak: peak,
		Ours: median(rates[variantOurs]), Plain: median(rates[variantPlain]),
		Ratio: median(ratios(rates[variantOurs], rates[variantPlain])),
	}
}

// ratios are those of each round.
func ratios(ours, theirs []float64) []float64 {
	each := make([]float64, len(ours))
	for i := range ours {
		each[i] = ours[i] / theirs[i]
	}
	return each
}

// report writes results as they come.
type report struct {
	out     io.Writer
	json    bool
	about   about
	heading string // of the last line
}

// begin says what the figures depend on.
func (r *report) begin() error {
	if r.json {
		return nil
	}
	m := r.about.Machine
	_, err := fmt.Fprintf(r.out, "%s\n%d cores, %s/%s, %s, Redis %s\n", r.about.Command, m.Cores,
		m.OS, m.Arch, m.Go, m.Redis)
	return err
}

func (r *report) encode(v any) error { return json.NewEncoder(r.out).Encode(v) }

// Layouts of lines: of fixed widths, since each round is printed when it ends.
const (
	roundLine  = "%5v  %6v  %8v  %9v  %12v  %12v  %12v   %v\n"
	handInLine = "%5v  %8v  %8v  %9v  %15v  %8v  %8v  %17v   %v\n"
)

// head writes a table's heading before the first of its rounds.
func (r *report) head(heading, layout string, columns ...any) {
	if r.heading == heading {
		return
	}
	r.heading = heading
	fmt.Fprintf(r.out, "\n%s; processor time in µs a row\n", heading)
	fmt.Fprintf(r.out, layout, columns...)
}

// each is a total of all rows as that of one row, in millionths.
func each(total float64, rows int) string { return fmt.Sprintf("%.0f", total*1e6/float64(rows)) }

func (r *report) round(result verifyResult) error {
	result.Benchmark = "verify"
	if r.json {
		result.about = r.about
		return r.encode(result)
	}
	r.head("verify: from two ids to a verified domain", roundLine,
		"ROUND", "ROWS", "SECONDS", "ROWS/S", "CPU OF BENCH", "OF REDIS", "OF SANDBOX", "VARIANT")
	_, err := fmt.Fprintf(r.out, roundLine, result.Round, result.Rows, fmt.Sprintf("%.2f", result.Seconds),
		fmt.Sprintf("%.0f", result.PerSecond),
		each(result.CPU.Bench, result.Rows), each(result.CPU.Redis, result.Rows),
		each(result.CPU.Sandbox, result.Rows), titles[result.Variant])
	if err == nil && result.Scripts > 0 {
		_, err = fmt.Fprintf(r.out, "scripts a row: %.2f (aim: %.1f); requests a row: %.2f (aim: %.2f)\n", result.Scripts,
			aimScripts, result.Requests, aimRequests)
	}
	return err
}

func (r *report) summary(s verifySummary) error {
	if r.json {
		s.about = r.about
		return r.encode(s)
	}
	_, err := fmt.Fprintf(r.out, "medians, rows/s: %s %.0f; %s %.0f; %s %.0f\n%s to %s: %.2f (aimed at: %.2f)\n",
		titles[variantOurs], s.Ours, titles[variantNoop], s.Noop, titles[variantLoop], s.Loop,
		titles[variantOurs], titles[variantLoop], s.Ratio, aimRatio)
	return err
}

func (r *report) enqueueRound(result enqueueResult) error {
	result.Benchmark = "enqueue"
	if r.json {
		result.about = r.about
		return r.encode(result)
	}
	heading := "enqueue: rows checked and stored"
	if result.Variant == variantDryRun {
		heading = "enqueue: rows checked and counted"
	}
	r.head(heading, handInLine,
		"ROUND", "ROWS", "SECONDS", "ROWS/S", "CPU OF PRODUCER", "OF REDIS", "PEAK, MB", "REDIS BYTES A ROW", "VARIANT")
	_, err := fmt.Fprintf(r.out, handInLine, result.Round, result.Rows, fmt.Sprintf("%.2f", result.Seconds),
		fmt.Sprintf("%.0f", result.PerSecond),
		each(result.CPU.Bench, result.Rows), each(result.CPU.Redis, result.Rows), fmt.Sprintf("%.1f", result.Peak),
		fmt.Sprintf("%.0f", result.RedisBytes),
		titles[result.Variant])
	return err
}

func (r *report) enqueueSummary(s enqueueSummary) error {
	if r.json {
		s.about = r.about
		return r.encode(s)
	}
	_, err := fmt.Fprintf(r.out,
		"medians, rows/s: %s %.0f (aimed at: %d); %s %.0f; ratio %.2f (aimed at: %d)\nhighest peak of %s: %.1f MB (aimed at: below %d)\n",
		titles[variantOurs], s.Ours, aimEnqueued, titles[variantPlain], s.Plain, s.Ratio, aimTimes,
		titles[variantOurs], s.Peak, aimPeak)
	return err
}
