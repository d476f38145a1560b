package main

import (
	"math"
	"net/http"
	"time"

	"orgops/dnscheck"
	"orgops/internal/engine"
	"orgops/internal/ledger"
	"orgops/internal/meters"
	"orgops/internal/metrics"
	"orgops/internal/tenant"
)

// measures counts events for Prometheus, and for the plots of the pages.
type measures struct {
	*metrics.Metrics
	meters *meters.Meters
}

// Rows counts the end of an execution of rows.
func (m measures) Rows(tenant string, kind ledger.Kind, outcome ledger.Outcome, rows int, took time.Duration) {
	m.Task(tenant, metricType(kind), string(outcome), took)
	if !engine.Settles(outcome) {
		return
	}
	m.meters.Add(tenant, meters.Settled, rows)
	if !engine.Succeeded(outcome) {
		m.meters.Add(tenant, meters.Failed, rows)
	}
}

// APIRequest counts one request to the Management API; status 0: there was no answer.
func (m measures) APIRequest(tenant, operation string, status int, took time.Duration) {
	m.Metrics.APIRequest(tenant, operation, status, took)
	m.meters.Add(tenant, meters.Requests, 1)
	if status == http.StatusTooManyRequests {
		m.meters.Add(tenant, meters.Refused, 1)
	}
}

// Verdict counts the result of a check or a proof.
func (m measures) Verdict(tenant string, v dnscheck.Verdict) {
	m.Metrics.Verdict(tenant, v.State.String(), string(v.Reason))
	series := meters.Other
	switch v.State {
	case dnscheck.Present:
		series = meters.Proven
	case dnscheck.Absent:
		series = meters.Absent
	}
	m.meters.Add(tenant, series, 1)
}

// allow sets how many requests the tenant's rate allows.
func (m measures) allow(t tenant.Settings) {
	if left, _ := t.Limit.Effective(); !left.IsUnlimited() {
		m.meters.Allow(t.Name, int64(math.Round(60*left.PerSecond())))
	}
}
