package console

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// readyTimeout bounds the checks of one /readyz: below the patience of those who
// usually ask, so that they hear which check it was.
const readyTimeout = 3 * time.Second

// Probes answers
//
//	/healthz  200 as long as the process answers at all
//	/readyz   200 if every check of Config.Ready is well, 503 and which are not
//	/metrics  the metrics, in the formats that Prometheus asks for
//
// the first two in text, or in JSON to those who accept application/json.
func Probes(cfg Config) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) {
		answer(w, r, report{Status: "ok", Version: cfg.Version, well: true})
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
		defer cancel()
		answer(w, r, readiness(ctx, cfg))
	})
	if cfg.Metrics != nil {
		mux.Handle("GET /metrics", promhttp.HandlerFor(cfg.Metrics.registry, promhttp.HandlerOpts{
			// A metric that cannot be read is left out; the rest is worth having.
			ErrorHandling: promhttp.ContinueOnError,
			// More than one Prometheus may ask; more than a few is somebody's mistake.
			MaxRequestsInFlight: 4,
		}))
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		mux.ServeHTTP(w, r)
	})
}

// report is the answer of a probe.
type report struct {
	Status  string        `json:"status"`
	Version string        `json:"version,omitempty"`
	Checks  []checkReport `json:"checks,omitempty"`
	well    bool
}

type checkReport struct {
	Name  string `json:"name"`
	OK    bool   `json:"ok"`
	Error string `json:"error,omitempty"`
	Note  string `json:"note,omitempty"`
}

func readiness(ctx context.Context, cfg Config) report {
	all := report{Status: "ready", Version: cfg.Version, well: true}
	if cfg.Ready == nil {
		return all
	}
	for _, check := range cfg.Ready(ctx) {
		one := checkReport{Name: printable(check.Name), OK: check.Err == nil, Note: printable(check.Note)}
		if check.Err != nil {
			one.Error = printable(check.Err.Error())
			all.Status, all.well = "not ready", false
		}
		all.Checks = append(all.Checks, one)
	}
	return all
}

// String is the text form: the status, then a line per check.
func (r report) String() string {
	var out strings.Builder
	fmt.Fprintln(&out, r.Status)
	for _, check := range r.Checks {
		switch {
		case !check.OK:
			fmt.Fprintf(&out, "%s: %s\n", check.Name, check.Error)
		case check.Note != "":
			fmt.Fprintf(&out, "%s: ok, but %s\n", check.Name, check.Note)
		default:
			fmt.Fprintf(&out, "%s: ok\n", check.Name)
		}
	}
	return out.String()
}

// answer writes a report. An asker who has gone cannot be told that writing to
// him did not work, so errors of writing are dropped.
func answer(w http.ResponseWriter, r *http.Request, what report) {
	status := http.StatusOK
	if !what.well {
		status = http.StatusServiceUnavailable
	}
	w.Header().Set("Vary", "Accept")
	if !wantsJSON(r) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, what.String())
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(what)
}

func wantsJSON(r *http.Request) bool {
	for _, accept := range r.Header.Values("Accept") {
		for part := range strings.SplitSeq(accept, ",") {
			if kind, _, err := mime.ParseMediaType(part); err == nil && kind == "application/json" {
				return true
			}
		}
	}
	return false
}
