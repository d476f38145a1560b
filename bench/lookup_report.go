package main

import (
	"fmt"
	"strings"
	"time"
)

const variantDnsperf = "dnsperf"

// aimLookups is what share of dnsperf's look-ups a second is aimed at. Over UDP we
// take a socket and a port of its own for each query.
var aimLookups = map[string]float64{"udp": 0.26}

// lookupResult is what one round of one variant over one transport came to.
type lookupResult struct {
	Benchmark string  `json:"benchmark"` // "lookups"
	Variant   string  `json:"variant"`
	Transport string  `json:"transport"`
	Round     int     `json:"round"`
	Good      int     `json:"lookups"` // ours: the token was found; dnsperf's: the answer was NOERROR
	Bad       int     `json:"errors"`
	Seconds   float64 `json:"seconds"`
	PerSecond float64 `json:"lookups_per_second"` // of the good ones
	CPU       float64 `json:"cpu_seconds"`        // of who asks; 0: not known
	about
}

func newLookupResult(good, bad int, took time.Duration) lookupResult {
	return lookupResult{Good: good, Bad: bad, Seconds: took.Seconds(), PerSecond: float64(good) / took.Seconds()}
}

// lookupSummary are the medians over the rounds.
type lookupSummary struct {
	Benchmark   string  `json:"benchmark"` // "lookups_summary"
	Transport   string  `json:"transport"`
	Rounds      int     `json:"rounds"`
	Concurrency int     `json:"concurrency"`
	Dnsperf     string  `json:"dnsperf_options"`
	Ours        float64 `json:"orgops_lookups_per_second"`
	Theirs      float64 `json:"dnsperf_lookups_per_second"`
	Ratio       float64 `json:"ratio"` // the median of the rounds' ratios
	Bad         int     `json:"orgops_errors"`
	about
}

func summarizeLookups(transport string, load lookupLoad, options []string, results []lookupResult) lookupSummary {
	s := lookupSummary{Benchmark: "lookups_summary", Transport: transport, Concurrency: load.Concurrency, Dnsperf: strings.Join(options, " ")}
	rates := map[string][]float64{}
	for _, r := range results { // in each round there is one of either
		rates[r.Variant] = append(rates[r.Variant], r.PerSecond)
		if r.Variant == variantOurs {
			s.Bad += r.Bad
		}
	}
	s.Rounds = len(rates[variantOurs])
	s.Ours, s.Theirs = median(rates[variantOurs]), median(rates[variantDnsperf])
	s.Ratio = median(ratios(rates[variantOurs], rates[variantDnsperf]))
	return s
}

const lookupLine = "%5v  %9v  %8v  %6v  %9v  %6v   %v\n"

func (r *report) lookupRound(result lookupResult) error {
	result.Benchmark = "lookups"
	if r.json {
		result.about = r.about
		return r.encode(result)
	}
	r.head("lookups over "+result.Transport+": TXT records at an NSD on this machine", lookupLine,
		"ROUND", "LOOKUPS", "SECONDS", "ERRORS", "LOOKUPS/S", "CPU", "VARIANT")
	title := titles[result.Variant]
	_, err := fmt.Fprintf(r.out, lookupLine, result.Round, result.Good, fmt.Sprintf("%.2f", result.Seconds), result.Bad,
		fmt.Sprintf("%.0f", result.PerSecond), each(result.CPU, max(result.Good, 1)), title)
	return err
}

func (r *report) lookupSummary(s lookupSummary) error {
	if r.json {
		s.about = r.about
		return r.encode(s)
	}
	_, err := fmt.Fprintf(r.out, "medians, lookups/s: %s %.0f (%d at a time, %d errors); %s %.0f (%s)\n%s to %s over %s: %.2f (aimed at: %.2f)\n",
		titles[variantOurs], s.Ours, s.Concurrency, s.Bad, titles[variantDnsperf], s.Theirs, s.Dnsperf,
		titles[variantOurs], titles[variantDnsperf], s.Transport, s.Ratio, aimLookups[s.Transport])
	return err
}
