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
	variantOurs    = "orgops"
	variantDefault = "asynq_default"
	variantNoop    = "asynq_noop"
	variantLoop    = "plain_loop"
)

// titles are the variants' names for people.
var titles = map[string]string{
	variantOurs:    "orgops",
	variantDefault: "asynq's own interval",
	variantNoop:    "asynq, no-op handler",
	variantLoop:    "plain loop",
}

// What is aimed at.
const (
	aimP50, aimP99 = 6 * time.Millisecond, 15 * time.Millisecond
	aimRatio       = 0.8
)

// about is in every object, so that one alone can be understood.
type about struct {
	Command string  `json:"command"`
	Machine machine `json:"machine"`
}

// pickupResult is what one way of asking came to.
type pickupResult struct {
	Benchmark string  `json:"benchmark"` // "pickup"
	Variant   string  `json:"variant"`
	Tasks     int     `json:"tasks"`
	P50       float64 `json:"p50_ms"`
	P90       float64 `json:"p90_ms"`
	P99       float64 `json:"p99_ms"`
	Max       float64 `json:"max_ms"`
	// RedisShare is the share of one core that Redis used meanwhile.
	RedisShare float64 `json:"redis_core_share"`
	about
}

func newPickupResult(latencies []time.Duration, redisShare float64) pickupResult {
	at := func(q float64) float64 { return milliseconds(quantile(latencies, q)) }
	return pickupResult{
		Benchmark: "pickup", Tasks: len(latencies),
		P50: at(0.5), P90: at(0.9), P99: at(0.99), Max: at(1), RedisShare: redisShare,
	}
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// cpu is processor time by process, in seconds; 0: not known.
type cpu struct {
	Bench   float64 `json:"bench"` // worker, server or loop, which run in this process
	Redis   float64 `json:"redis"`
	Sandbox float64 `json:"sandbox"`
}

func (c cpu) minus(other cpu) cpu {
	return cpu{c.Bench - other.Bench, c.Redis - other.Redis, c.Sandbox - other.Sandbox}
}

// verifyResult is what one round of one variant came to.
type verifyResult struct {
	Benchmark string  `json:"benchmark"` // "verify"
	Variant   string  `json:"variant"`
	Round     int     `json:"round"`
	Rows      int     `json:"rows"`
	Seconds   float64 `json:"seconds"` // from the first start to the last end
	PerSecond float64 `json:"rows_per_second"`
	CPU       cpu     `json:"cpu_seconds"`
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
	ratios := make([]float64, len(rates[variantOurs]))
	for i, ours := range rates[variantOurs] {
		ratios[i] = ours / rates[variantLoop][i]
	}
	return verifySummary{
		Benchmark: "verify_summary", Rounds: len(ratios), Ratio: median(ratios),
		Ours: median(rates[variantOurs]), Noop: median(rates[variantNoop]), Loop: median(rates[variantLoop]),
	}
}

// report writes results as they come.
type report struct {
	out    io.Writer
	json   bool
	about  about
	rounds bool // the heading of the rounds is written
}

// begin says what the figures depend on.
func (r *report) begin() error {
	if r.json {
		return nil
	}
	m := r.about.Machine
	_, err := fmt.Fprintf(r.out, "%s\n%d cores, %s/%s, %s, Redis %s\n", r.about.Command, m.Cores, m.OS, m.Arch, m.Go, m.Redis)
	return err
}

func (r *report) encode(v any) error { return json.NewEncoder(r.out).Encode(v) }

func (r *report) pickups(results ...pickupResult) error {
	if r.json {
		for _, one := range results {
			one.about = r.about
			if err := r.encode(one); err != nil {
				return err
			}
		}
		return nil
	}
	fmt.Fprintln(r.out, "\npickup: from the enqueue to the handler of an idle worker, in ms")
	fmt.Fprintf(r.out, pickupLine, "TASKS", "P50", "P90", "P99", "MAX", "REDIS, OF A CORE", "VARIANT")
	ms := func(f float64) string { return fmt.Sprintf("%.1f", f) }
	for _, one := range results {
		fmt.Fprintf(r.out, pickupLine, one.Tasks, ms(one.P50), ms(one.P90), ms(one.P99), ms(one.Max), fmt.Sprintf("%.1f %%", 100*one.RedisShare), titles[one.Variant])
	}
	_, err := fmt.Fprintf(r.out, pickupLine, "", ms(milliseconds(aimP50)), "", ms(milliseconds(aimP99)), "", "", "(aimed at)")
	return err
}

// Layouts of lines: of fixed widths, since rounds are told as they end.
const (
	pickupLine = "%5v  %7v  %7v  %7v  %7v  %16v   %v\n"
	roundLine  = "%5v  %6v  %8v  %9v  %12v  %12v  %12v   %v\n"
)

func (r *report) round(result verifyResult) error {
	result.Benchmark = "verify"
	if r.json {
		result.about = r.about
		return r.encode(result)
	}
	if !r.rounds {
		r.rounds = true
		fmt.Fprintln(r.out, "\nverify: from two ids to a verified domain; processor time in µs a row")
		fmt.Fprintf(r.out, roundLine, "ROUND", "ROWS", "SECONDS", "ROWS/S", "CPU OF BENCH", "OF REDIS", "OF SANDBOX", "VARIANT")
	}
	each := func(seconds float64) string { return fmt.Sprintf("%.0f", seconds*1e6/float64(result.Rows)) }
	_, err := fmt.Fprintf(r.out, roundLine, result.Round, result.Rows, fmt.Sprintf("%.2f", result.Seconds), fmt.Sprintf("%.0f", result.PerSecond),
		each(result.CPU.Bench), each(result.CPU.Redis), each(result.CPU.Sandbox), titles[result.Variant])
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
