package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"orgops/internal/engine"
	"orgops/internal/ledger"
)

// soakResult is the result of an hour of load.
type soakResult struct {
	Benchmark string           `json:"benchmark"` // "soak"
	Tenants   int              `json:"tenants"`
	Minutes   float64          `json:"minutes"`
	Rows      int64            `json:"rows"`
	Outcomes  map[string]int64 `json:"outcomes"`
	Failed    int64            `json:"rows_failed"` // apart from those that are to expire
	Pages     int64            `json:"pages"`
	BadPages  []string         `json:"pages_failed"`
	Slowest   float64          `json:"slowest_page_seconds"`
	Requests  int64            `json:"requests"` // between the first and the last sample
	Refused   int64            `json:"requests_429"`
	// Kept is the share of the tenants' rate that was used between these samples.
	Kept   float64 `json:"rate_kept"`
	Trends []trend `json:"trends"` // over the second half of the samples
	// Undeleted is how many runs were left after their time, and Left the keys then.
	Undeleted int               `json:"runs_undeleted"`
	Left      map[string]weight `json:"left"`
	// PerRow is the memory of a row with its result, which is kept for 30 days unless its run
	// is deleted.
	PerRow map[string]weight `json:"kept_per_row"`
	about
}

// result evaluates the samples.
func (k *soak) result(samples []soakSample) soakResult {
	first, last := samples[0], samples[len(samples)-1]
	r := soakResult{
		Benchmark: "soak", Tenants: k.load.Tenants, Minutes: last.Minute, Outcomes: maps.Clone(k.outcomes), Pages: k.pages, BadPages: k.bad, Slowest: k.slowest.Seconds(),
		Requests: last.Requests - first.Requests, Refused: last.Refused, Trends: trendsOf(samples[len(samples)/2:]),
	}
	if seconds := (last.Minute - first.Minute) * 60; seconds > 0 {
		r.Kept = float64(r.Requests) / (seconds * paceRate * float64(k.load.Tenants))
	}
	for outcome, n := range k.outcomes {
		r.Rows += n
		if !slices.Contains([]ledger.Outcome{ledger.Done, engine.Unchanged, engine.Expired}, ledger.Outcome(outcome)) {
			r.Failed += n
		}
	}
	return r
}

// trendsOf returns the trends of all measures, and of the keys of each family.
func trendsOf(samples []soakSample) (all []trend) {
	hours := make([]float64, len(samples))
	values := map[string][]float64{}
	note := func(measure string, i int, value float64) {
		if values[measure] == nil {
			values[measure] = make([]float64, len(samples))
		}
		values[measure][i] = value
	}
	for i, s := range samples {
		hours[i] = s.Minute / 60
		for measure, value := range s.Measures {
			note(measure, i, value)
		}
		for family, w := range s.Families {
			note("keys "+family, i, w.Keys)
		}
	}
	for _, measure := range slices.Sorted(maps.Keys(values)) {
		all = append(all, trendOf(measure, hours, values[measure]))
	}
	return all
}

const sampleLine = "%6v  %13v  %13v  %11v  %11v  %6v  %8v  %5v  %9v  %5v\n"

func (r *report) soakSample(s soakSample, first bool) error {
	if r.json {
		s.about = r.about
		return r.encode(s)
	}
	if first {
		fmt.Fprintf(r.out, "\nsoak: of each worker memory and heap in MB, goroutines and descriptors; of Redis memory in MB\n")
		fmt.Fprintf(r.out, sampleLine, "MINUTE", "MEMORY", "HEAP", "GOROUTINES", "DESCRIPTORS", "KEYS", "REDIS MB", "CONNS", "REQUESTS", "429s")
	}
	each := func(measure, format string) string {
		var words []string
		for i := range soakWorkers {
			words = append(words, fmt.Sprintf(format, s.Measures[fmt.Sprintf("worker %d %s", i+1, measure)]))
		}
		return strings.Join(words, " ")
	}
	_, err := fmt.Fprintf(r.out, sampleLine, fmt.Sprintf("%.1f", s.Minute), each("memory, MB", "%.1f"), each("heap, MB", "%.1f"), each("goroutines", "%.0f"), each("descriptors", "%.0f"),
		s.Measures["Redis keys"], fmt.Sprintf("%.2f", s.Measures["Redis memory, MB"]), s.Measures["Redis connections"], s.Requests, s.Refused)
	return err
}

func (r *report) soak(s soakResult) error {
	if r.json {
		s.about = r.about
		return r.encode(s)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\nsoak: %d tenants of %d requests/s, %.0f minutes, two workers\n", s.Tenants, paceRate, s.Minutes)
	fmt.Fprintf(&b, "  %d rows: %s; %d failed\n", s.Rows, countWords(s.Outcomes), s.Failed)
	fmt.Fprintf(&b, "  %d requests, %.1f %% of the rate; %d 429s\n", s.Requests, 100*s.Kept, s.Refused)
	fmt.Fprintf(&b, "  %d pages, %d failed, the slowest took %.2f s\n", s.Pages, len(s.BadPages), s.Slowest)
	for _, bad := range s.BadPages[:min(len(s.BadPages), 5)] {
		fmt.Fprintf(&b, "    %s\n", bad)
	}
	fmt.Fprintf(&b, "the second half of it\n  %10s  %10s  %8s\n", "MEAN", "AN HOUR", "±")
	for _, t := range s.Trends {
		fmt.Fprintf(&b, "  %10.1f  %+10.1f  %8.1f  %-5s  %s  %s\n", t.Mean, t.PerHour, 2*t.Error, t.verdict(), t.Measure, t.KeptFor)
	}
	fmt.Fprintf(&b, "left when the runs of the load were deleted: %d runs, %.0f keys\n", s.Undeleted, total(s.Left).Keys)
	for _, family := range slices.Sorted(maps.Keys(s.Left)) {
		fmt.Fprintf(&b, "  %6.0f keys  %8.0f bytes  %s\n", s.Left[family].Keys, s.Left[family].Bytes, family)
	}
	for _, row := range slices.Sorted(maps.Keys(s.PerRow)) {
		fmt.Fprintf(&b, "a %s that is kept, for %d days unless it is deleted: %.2f keys, %.0f bytes\n", row, ledger.Retention/(24*time.Hour), s.PerRow[row].Keys, s.PerRow[row].Bytes)
	}
	_, err := fmt.Fprint(r.out, b.String())
	return err
}

func (t trend) verdict() string {
	switch {
	case t.KeptFor != "":
		return "kept"
	case t.Grows:
		return "GROWS"
	}
	return "flat"
}
