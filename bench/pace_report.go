package main

import (
	"net/http"
	"time"

	"orgops/apiclient/schema"
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
}

func newPaceResult(v paceVariant, rows int, lost int64, log []request) paceResult {
	r := paceResult{Benchmark: "pace", Variant: v.name, Rows: rows, Lost: lost}
	var first, last time.Time
	for _, q := range log {
		if q.Operation != schema.OpUpdateDiscoveryDomain {
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
		if q.Operation != schema.OpListOrganizations || q.At.Before(first) || q.At.After(last) {
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
}
