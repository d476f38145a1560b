package main

import (
	"fmt"
	"net/http"
	"time"

	"orgops/apiclient"
	"orgops/internal/pace"
)

// paceResult is what one way of keeping to a rate came to. Requests are counted
// as the tenant has them in its log.
type paceResult struct {
	Benchmark string  `json:"benchmark"` // "pace"
	Variant   string  `json:"variant"`
	Rows      int     `json:"rows"`
	Lost      int64   `json:"rows_lost"` // not carried out
	Seconds   float64 `json:"seconds"`   // from the first request to the last
	// Used is the share used of what there was: of the rate less the reserve, or, where
	// others took part, of what they left of the rate if that is less. The first burst
	// is in neither.
	Used float64 `json:"used_share"`
	// Refused are requests that were answered with 429; those of the first second are
	// not in RefusedLater.
	Refused       int `json:"refused"`
	RefusedLater  int `json:"refused_after_first_second"`
	Requests      int `json:"requests"`
	Others        int `json:"others_requests"`
	OthersRefused int `json:"others_refused"`
	about
}

func newPaceResult(v paceVariant, rows int, lost int64, log []request) paceResult {
	r := paceResult{Benchmark: "pace", Variant: v.name, Rows: rows, Lost: lost}
	var first, last time.Time
	for _, q := range log {
		if q.Operation != apiclient.OpUpdateDiscoveryDomain {
			continue
		}
		if first.IsZero() {
			first = q.At
		}
		last = q.At
		r.Requests++
		if q.Status == http.StatusTooManyRequests {
			r.Refused++
			if q.At.Sub(first) > time.Second {
				r.RefusedLater++
			}
		}
	}
	othersServed := 0
	for _, q := range log {
		if q.Operation != apiclient.OpListOrganizations || q.At.Before(first) || q.At.After(last) {
			continue
		}
		r.Others++
		if q.Status == http.StatusTooManyRequests {
			r.OthersRefused++
		} else {
			othersServed++
		}
	}
	r.Seconds = last.Sub(first).Seconds()
	_, burst := pace.Limit{Burst: paceBurst, Reserve: v.reserve}.Effective()
	there := min(paceRate*(1-v.reserve)*r.Seconds, paceRate*r.Seconds-float64(othersServed))
	if there > 0 {
		r.Used = max(0, float64(r.Requests-r.Refused-burst)) / there
	}
	return r
}

// smallRunResult is how long a small run took.
type smallRunResult struct {
	Benchmark string  `json:"benchmark"` // "pace_small_run"
	Rows      int     `json:"rows"`
	Behind    int     `json:"behind_rows"`
	Seconds   float64 `json:"seconds"`
	about
}

const paceLine = "%6v  %6v  %8v  %7v  %9v  %15v  %8v  %9v   %v\n"

func (r *report) pace(result paceResult) error {
	if r.json {
		result.about = r.about
		return r.encode(result)
	}
	if heading := "pace"; r.heading != heading {
		r.heading = heading
		fmt.Fprintf(r.out, "\npace: at %d/s, burst %d; %d workers\n", paceRate, paceBurst, paceWorkers)
		fmt.Fprintf(r.out, paceLine, "ROWS", "LOST", "SECONDS", "USED", "429s", "AFTER 1st SECOND",
			"OTHERS", "OF 429s", "VARIANT")
	}
	_, err := fmt.Fprintf(r.out, paceLine, result.Rows, result.Lost, fmt.Sprintf("%.1f", result.Seconds),
		fmt.Sprintf("%.1f %%", 100*result.Used),
		result.Refused, result.RefusedLater, result.Others, result.OthersRefused, result.Variant)
	return err
}

// aimSmallRun is how long a small run may take.
const aimSmallRun = 10 * time.Second

func (r *report) smallRun(result smallRunResult) error {
	result.Benchmark = "pace_small_run"
	if r.json {
		result.about = r.about
		return r.encode(result)
	}
	_, err := fmt.Fprintf(r.out, "%d rows to verify, submitted behind %d: %.1f s (aimed at: below %.0f)\n", result.Rows,
		result.Behind, result.Seconds, aimSmallRun.Seconds())
	return err
}
