package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"orgops/apiclient"
	"orgops/internal/sandbox"
)

// sweepResult is what one sweep came to. What was asked for is as the tenant counts
// it.
type sweepResult struct {
	Benchmark string         `json:"benchmark"` // "sweep"
	Variant   string         `json:"variant"`
	Rate      int            `json:"rate_per_second"`
	Killed    bool           `json:"killed"`
	Crowd     sandbox.Bulk   `json:"tenant"`
	Counts    sandbox.Counts `json:"asked"`
	Seconds   float64        `json:"seconds"`        // from the order to the run's end
	Judged    float64        `json:"judged_seconds"` // from there to the end of its judgement
	// PaceSeconds is how long the requests take at the rate alone, the first burst at
	// once.
	PaceSeconds float64          `json:"pace_seconds"`
	Rows        int64            `json:"rows"`
	Outcomes    map[string]int64 `json:"outcomes"`
	Seen        map[string]int64 `json:"seen"`     // domains, by what was recorded of them
	Missed      int64            `json:"missed"`   // domains without a row
	Twice       int64            `json:"twice"`    // rows of a domain that has one already
	Unlooked    int64            `json:"unlooked"` // domains of which not exactly one look is remembered
	CPU         cpu              `json:"cpu_seconds"`
	// Peak is the most memory that a worker had resident, in MB; 0: not known.
	Peak       float64 `json:"peak_mb"`
	RedisBytes int64   `json:"redis_bytes"` // after the sweep, with what it remembers
	about
}

// requests is how many there were, but for tokens.
func (r *sweepResult) requests() (n int64) {
	for operation, t := range r.Counts.Requests {
		if operation != sandbox.OpToken {
			n += t.All
		}
	}
	return n
}

// aimSweepPeak is what a worker may have resident, in MB.
const aimSweepPeak = 128

func (r *report) sweep(s sweepResult) error {
	s.Benchmark = "sweep"
	if r.json {
		s.about = r.about
		return r.encode(s)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\nsweep: %d organizations with %d domains, %d of them absent, %d SERVFAIL; %d requests/s: %s%s\n",
		s.Crowd.Organizations, s.Crowd.Domains, s.Crowd.Absent, s.Crowd.Servfail, s.Rate, titles[s.Variant], killedWords[s.Killed])
	fmt.Fprintf(&b, "  %.1f s; the pace alone takes %.1f s for %d requests (%.2f of that)\n", s.Seconds, s.PaceSeconds, s.requests(), s.Seconds/cmp.Or(s.PaceSeconds, s.Seconds))
	for _, operation := range slices.Sorted(maps.Keys(s.Counts.Requests)) {
		fmt.Fprintf(&b, "  %s: %s\n", operation, tallyWords(s.Counts.Requests[operation]))
	}
	fmt.Fprintf(&b, "  DNS queries: %s\n", tallyWords(s.Counts.Queries))
	fmt.Fprintf(&b, "  seen: %s; %d requests for single domains\n", countWords(s.Seen), s.Counts.Requests[apiclient.OpGetDiscoveryDomain].All)
	if s.Variant == variantOurs {
		fmt.Fprintf(&b, "  %d rows: %s; %d domains missed, %d twice, %d not remembered with one look; judged after %.1f s\n",
			s.Rows, countWords(s.Outcomes), s.Missed, s.Twice, s.Unlooked, s.Judged)
		fmt.Fprintf(&b, "  worker: at most %.1f MB (aimed at: below %d); Redis: %.0f bytes a domain\n", s.Peak, aimSweepPeak, float64(s.RedisBytes)/float64(s.Crowd.Domains))
	}
	_, err := fmt.Fprintf(r.out, "%s  processor time, s per 1,000 domains: %s %.2f, Redis %.2f, sandbox %.2f\n", b.String(), workerWords[s.Variant == variantOurs],
		thousand(s.CPU.Bench, s), thousand(s.CPU.Redis, s), thousand(s.CPU.Sandbox, s))
	return err
}

var (
	killedWords = map[bool]string{true: ", killed and started again"}
	workerWords = map[bool]string{true: "worker", false: "loop"}
)

func thousand(seconds float64, s sweepResult) float64 {
	return seconds * 1000 / float64(s.Crowd.Domains)
}

// tallyWords says how many there were, what they were answered, and how many targets
// were asked for how often: "99 x 1, 1 x 2".
func tallyWords(t sandbox.Tally) string {
	words := []string{fmt.Sprintf("%d (%s)", t.All, countWords(t.Answers))}
	for _, times := range slices.Sorted(maps.Keys(t.Times)) {
		words = append(words, fmt.Sprintf("%d x %d", t.Times[times], times))
	}
	return strings.Join(words, ", ")
}

func countWords(counts map[string]int64) string {
	var words []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		words = append(words, fmt.Sprintf("%s %d", cmp.Or(name, "none"), counts[name]))
	}
	return strings.Join(words, ", ")
}
