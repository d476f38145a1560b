package main

import (
	"encoding/json"
	"io"
	"runtime"
	"slices"
)

// The variants' names.
const (
	variantOurs  = "orgops"
	variantLoop  = "plain_loop"
	variantPlain = "asynq_enqueue"
)

// write writes a result.
func write(out io.Writer, result any) error {
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	return e.Encode(result)
}

// about has the conditions of the figures after it.
type about struct {
	Command string `json:"command"`
	Cores   int    `json:"cores"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
	Go      string `json:"go"`
	Redis   string `json:"redis"`
}

func aboutThis(command, redisVersion string) about {
	return about{Command: command, Cores: runtime.NumCPU(), OS: runtime.GOOS, Arch: runtime.GOARCH,
		Go: runtime.Version(), Redis: redisVersion}
}

// cpu is processor time by process, in seconds; 0: not known.
type cpu struct {
	Bench   float64 `json:"bench"` // worker or loop; or the producer
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
}

// verifySummary are the medians over the rounds.
type verifySummary struct {
	Benchmark string  `json:"benchmark"` // "verify_summary"
	Rounds    int     `json:"rounds"`
	Ours      float64 `json:"orgops_rows_per_second"`
	Loop      float64 `json:"plain_loop_rows_per_second"`
	// Ratio is ours to the plain loop: the median of the rounds' ratios, since
	// what else the machine does changes from round to round.
	Ratio float64 `json:"ratio"`
}

func summarize(results []verifyResult) verifySummary {
	rates := map[string][]float64{}
	for _, r := range results { // in each round there is one of either
		rates[r.Variant] = append(rates[r.Variant], r.PerSecond)
	}
	return verifySummary{
		Benchmark: "verify_summary", Rounds: len(rates[variantOurs]),
		Ratio: median(ratios(rates[variantOurs], rates[variantLoop])),
		Ours:  median(rates[variantOurs]), Loop: median(rates[variantLoop]),
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
}

// enqueueSummary are the medians over the rounds, and the highest peak.
type enqueueSummary struct {
	Benchmark string  `json:"benchmark"` // "enqueue_summary"
	Rounds    int     `json:"rounds"`
	Ours      float64 `json:"orgops_rows_per_second"`
	Plain     float64 `json:"asynq_enqueue_rows_per_second"`
	Ratio     float64 `json:"ratio"` // ours to plain, the median of the rounds' ratios
	Peak      float64 `json:"orgops_peak_mb"`
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

// median is the middle value, of an even number the mean of the two in the
// middle. There is at least one.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}
