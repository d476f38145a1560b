package httpapi

import (
	"cmp"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// metrics are those of a server. No label has a caller.
type metrics struct {
	requests, refused *prometheus.CounterVec
	rows              prometheus.Counter
	uploads           prometheus.Gauge
}

// newMetrics registers the metrics; nil: they are not read.
func newMetrics(registry prometheus.Registerer) metrics {
	with := promauto.With(registry)
	return metrics{
		requests: with.NewCounterVec(prometheus.CounterOpts{Name: "orgops_intake_requests_total",
			Help: "Requests to an intake. Route none: there is no such path. Status none: cut off without an answer."},
			[]string{"route", "status"}),
		refused: with.NewCounterVec(prometheus.CounterOpts{Name: "orgops_intake_refused_total",
			Help: "Requests that an intake refused because a limit was reached."},
			[]string{"limit"}),
		rows: with.NewCounter(prometheus.CounterOpts{Name: "orgops_intake_rows_total",
			Help: "Rows that an intake accepted, of repeated requests too."}),
		uploads: with.NewGauge(prometheus.GaugeOpts{Name: "orgops_intake_uploads",
			Help: "Uploads and retries that an intake receives at present."}),
	}
}

// answered counts a request.
func (m metrics) answered(route string, status int) {
	code := "none"
	if status != 0 {
		code = strconv.Itoa(status)
	}
	m.requests.WithLabelValues(cmp.Or(route, "none"), code).Inc()
}
