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
	variantPlain   = "asynq_enqueue"
	variantDryRun  = "orgops_dry_run"
)

// titles are the variants' names for people.
var titles = map[string]string{
	variantOurs:    "orgops",
	variantDefault: "asynq's own interval",
	variantNoop:    "asynq, no-op handler",
	variantLoop:    "plain loop",
	variantPlain:   "asynq.Client.Enqueue, 64 goroutines",
	variantDryRun:  "orgops, dry run",
	variantDnsperf: "dnsperf",
	variantSilent:  "some on silent servers",
	variantAllWell: "none on silent servers",
	variantWarm:    "delegations known",
	variantCold:    "delegations unknown",
}

// What is aimed at.
const (
	aimP50, aimP99 = 6 * time.Millisecond, 15 * time.Millisecond
	aimRatio       = 0.8
	aimEnqueued    = 60_000 // rows a second
	aimPeak        = 96     // MB
	aimFresh       = time.Second
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

// freshResult is how long published records took to the PATCH, beside so many other
// pending domains.
type freshResult struct {
	Benchmark string  `json:"benchmark"` // "fresh"
	Others    int     `json:"others"`
	Samples   int     `json:"samples"`
	P50       float64 `json:"p50_ms"` // from when the look is due to the PATCH's arrival
	P90       float64 `json:"p90_ms"`
	P99       float64 `json:"p99_ms"`
	Max       float64 `json:"max_ms"`
	// Of the parts, the first from then to when a worker takes the look up.
	Look    spanResult `json:"to_look"`
	Confirm spanResult `json:"to_confirm"`
	Patch   spanResult `json:"to_patch"`
	about
}

type spanResult struct {
	P50 float64 `json:"p50_ms"`
	P99 float64 `json:"p99_ms"`
}

func newFreshResult(samples []sample, others int) freshResult {
	var whole, look, confirm, patch []time.Duration
	for _, s := range samples {
		whole = append(whole, s.patch.Sub(s.due))
		look, confirm, patch = append(look, s.look.Sub(s.due)), append(confirm, s.confirm.Sub(s.look)), append(patch, s.patch.Sub(s.confirm))
	}
	at := func(spans []time.Duration, q float64) float64 { return milliseconds(quantile(spans, q)) }
	part := func(spans []time.Duration) spanResult { return spanResult{at(spans, 0.5), at(spans, 0.99)} }
	return freshResult{
		Benchmark: "fresh", Others: others, Samples: len(samples),
		P50: at(whole, 0.5), P90: at(whole, 0.9), P99: at(whole, 0.99), Max: at(whole, 1),
		Look: part(look), Confirm: part(confirm), Patch: part(patch),
	}
}

// cpu is processor time by process, in seconds; 0: not known.
type cpu struct {
	Bench   float64 `json:"bench"` // worker, server or loop, which run in this process; or the producer
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
	return verifySummary{
		Benchmark: "verify_summary", Rounds: len(rates[variantOurs]), Ratio: median(ratios(rates[variantOurs], rates[variantLoop])),
		Ours: median(rates[variantOurs]), Noop: median(rates[variantNoop]), Loop: median(rates[variantLoop]),
	}
}

// enqueueResult is what one round of one producer came to.
type enqueueResult struct {
	Benchmark string  `json:"benchmark"` // "enqueue"
	Variant   string  `json:"variant"`
	Round     int     `json:"round"`
	Rows      int     `json:"rows"`
	Seconds   float64 `json:"seconds"` // both passes over the rows
	PerSecond float64 `json:"rows_per_second"`
	CPU       cpu     `json:"cpu_seconds"`
	// Peak is the most memory that the producer had resident, in MB; 0: not known.
	Peak float64 `json:"peak_mb"`
	// RedisBytes is what Redis holds for one row that is enqueued and open; 0: not
	// known.
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
		Ours: median(rates[variantOurs]), Plain: median(rates[variantPlain]), Ratio: median(ratios(rates[variantOurs], rates[variantPlain])),
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
	heading string // of the rounds that were told last
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

func (r *report) fresh(results ...freshResult) error {
	if r.json {
		for _, one := range results {
			one.about = r.about
			if err := r.encode(one); err != nil {
				return err
			}
		}
		return nil
	}
	fmt.Fprintln(r.out, "\nfresh: from when the look is due, the record being there, to the PATCH's arrival, in ms; parts: P50/P99")
	fmt.Fprintf(r.out, freshLine, "SAMPLES", "P50", "P90", "P99", "MAX", "TO THE LOOK", "TO THE CONFIRM", "TO THE PATCH", "BESIDE")
	ms := func(f float64) string { return fmt.Sprintf("%.0f", f) }
	part := func(s spanResult) string { return ms(s.P50) + "/" + ms(s.P99) }
	for _, one := range results {
		beside := "nothing"
		if one.Others > 0 {
			beside = fmt.Sprintf("%d other pending domains", one.Others)
		}
		fmt.Fprintf(r.out, freshLine, one.Samples, ms(one.P50), ms(one.P90), ms(one.P99), ms(one.Max), part(one.Look), part(one.Confirm), part(one.Patch), beside)
	}
	_, err := fmt.Fprintf(r.out, freshLine, "", "", "", ms(milliseconds(aimFresh)), "", "", "", "", "(aimed at: below)")
	return err
}

// Layouts of lines: of fixed widths, since rounds are told as they end.
const (
	pickupLine = "%5v  %7v  %7v  %7v  %7v  %16v   %v\n"
	freshLine  = "%7v  %6v  %6v  %6v  %6v  %12v  %14v  %12v   %v\n"
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
	_, err := fmt.Fprintf(r.out, roundLine, result.Round, result.Rows, fmt.Sprintf("%.2f", result.Seconds), fmt.Sprintf("%.0f", result.PerSecond),
		each(result.CPU.Bench, result.Rows), each(result.CPU.Redis, result.Rows), each(result.CPU.Sandbox, result.Rows), titles[result.Variant])
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
	heading := "enqueue: rows checked, stored and enqueued"
	if result.Variant == variantDryRun {
		heading = "enqueue: rows checked and counted"
	}
	r.head(heading, handInLine,
		"ROUND", "ROWS", "SECONDS", "ROWS/S", "CPU OF PRODUCER", "OF REDIS", "PEAK, MB", "REDIS BYTES A ROW", "VARIANT")
	_, err := fmt.Fprintf(r.out, handInLine, result.Round, result.Rows, fmt.Sprintf("%.2f", result.Seconds), fmt.Sprintf("%.0f", result.PerSecond),
		each(result.CPU.Bench, result.Rows), each(result.CPU.Redis, result.Rows), fmt.Sprintf("%.1f", result.Peak), fmt.Sprintf("%.0f", result.RedisBytes),
		titles[result.Variant])
	return err
}

func (r *report) enqueueSummary(s enqueueSummary) error {
	if r.json {
		s.about = r.about
		return r.encode(s)
	}
	_, err := fmt.Fprintf(r.out, "medians, rows/s: %s %.0f (aimed at: %d); %s %.0f; ratio %.2f\nhighest peak of %s: %.1f MB (aimed at: below %d)\n",
		titles[variantOurs], s.Ours, aimEnqueued, titles[variantPlain], s.Plain, s.Ratio, titles[variantOurs], s.Peak, aimPeak)
	return err
}
