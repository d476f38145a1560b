package main

import (
	"fmt"
	"time"
)

// aimSilent is how much longer, at most, the others may wait at p99.
const aimSilent = 1.5

// The variants' names: what is offered.
const (
	variantSilent  = "with_silent_servers"
	variantAllWell = "without_silent_servers"
)

// silentResult is what one round came to: from the instant a look-up was offered to
// its verdict, of names that are not silent.
type silentResult struct {
	Benchmark string  `json:"benchmark"` // "silent"
	Variant   string  `json:"variant"`
	Mode      string  `json:"dns_mode"`
	Round     int     `json:"round"`
	Names     int     `json:"names"`
	P50       float64 `json:"p50_ms"`
	P90       float64 `json:"p90_ms"`
	P99       float64 `json:"p99_ms"`
	Max       float64 `json:"max_ms"`
	Silent    int     `json:"silent_verdicts"` // of silent names, when the others were through
	Bad       int     `json:"wrong_verdicts"`
	about
}

func newSilentResult(withSilent bool, others []time.Duration, silent, bad int) silentResult {
	at := func(q float64) float64 { return milliseconds(quantile(others, q)) }
	r := silentResult{
		Benchmark: "silent", Variant: variantAllWell, Names: len(others),
		P50: at(0.5), P90: at(0.9), P99: at(0.99), Max: at(1), Silent: silent, Bad: bad,
	}
	if withSilent {
		r.Variant = variantSilent
	}
	return r
}

// silentSummary are the medians over the rounds.
type silentSummary struct {
	Benchmark string  `json:"benchmark"` // "silent_summary"
	Mode      string  `json:"dns_mode"`
	Rounds    int     `json:"rounds"`
	Places    int     `json:"looks_at_a_time"`
	Rate      int     `json:"offered_per_second"`
	Share     float64 `json:"silent_share"`
	With      float64 `json:"p99_ms_with"`
	Without   float64 `json:"p99_ms_without"`
	Ratio     float64 `json:"ratio"` // the median of the rounds' ratios
	Bad       int     `json:"wrong_verdicts"`
	about
}

func summarizeSilent(mode string, load silentLoad, results []silentResult) silentSummary {
	s := silentSummary{
		Benchmark: "silent_summary", Mode: mode, Places: dnsConcurrency, Rate: load.Rate, Share: float64(load.Silent) / float64(load.Names),
	}
	p99 := map[string][]float64{}
	for _, r := range results { // in each round there is one of either
		p99[r.Variant] = append(p99[r.Variant], r.P99)
		s.Bad += r.Bad
	}
	s.Rounds = len(p99[variantSilent])
	s.With, s.Without = median(p99[variantSilent]), median(p99[variantAllWell])
	s.Ratio = median(ratios(p99[variantSilent], p99[variantAllWell]))
	return s
}

const silentLine = "%5v  %6v  %8v  %8v  %8v  %8v  %7v  %6v   %v\n"

func (r *report) silentRound(result silentResult) error {
	if r.json {
		result.about = r.about
		return r.encode(result)
	}
	heading := "silent: from the offer of a look-up to its verdict, mode " + result.Mode + ", in ms"
	if r.heading != heading {
		r.heading = heading
		fmt.Fprintf(r.out, "\n%s\n", heading)
		fmt.Fprintf(r.out, silentLine, "ROUND", "NAMES", "P50", "P90", "P99", "MAX", "SILENT", "WRONG", "VARIANT")
	}
	ms := func(f float64) string { return fmt.Sprintf("%.1f", f) }
	_, err := fmt.Fprintf(r.out, silentLine, result.Round, result.Names, ms(result.P50), ms(result.P90), ms(result.P99), ms(result.Max),
		result.Silent, result.Bad, titles[result.Variant])
	return err
}

func (r *report) silentSummary(s silentSummary) error {
	if r.json {
		s.about = r.about
		return r.encode(s)
	}
	_, err := fmt.Fprintf(r.out, "medians of p99, ms: %.1f with %.1f %% on silent servers, %.1f without; %d look-ups/s offered, %d at a time, %d verdicts wrong\nwith to without in mode %s: %.2f (aimed at: at most %.1f)\n",
		s.With, 100*s.Share, s.Without, s.Rate, s.Places, s.Bad, s.Mode, s.Ratio, aimSilent)
	return err
}
