package health

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

	"orgops/internal/untrusted"
)

// maxText bounds each text of an answer, in characters.
const maxText = 500

// Probes answers
//
//	/healthz  200 as long as the process answers at all
//	/readyz   200 if no finding of ready is wrong, else 503; with all findings
//	/metrics  metrics; nil: 404
//
// the first two in text, or in JSON if the client accepts application/json. It is for
// machines: no answer names a domain or an organization. The ctx of ready ends after 3 s.
func Probes(version string, ready func(ctx context.Context) []Finding, metrics http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) {
		answer(w, r, http.StatusOK, report{Status: "ok", Version: version})
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
		defer cancel()
		all, code := report{Status: "ready", Version: version}, http.StatusOK
		for _, f := range ready(ctx) {
			if f.Level == Wrong {
				all.Status, code = "not ready", http.StatusServiceUnavailable
			}
			all.Checks = append(all.Checks, reportOf(f))
		}
		answer(w, r, code, all)
	})
	if metrics != nil {
		mux.Handle("GET /metrics", metrics)
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
}

type checkReport struct {
	Name  string `json:"name"`
	OK    bool   `json:"ok"`
	Error string `json:"error,omitempty"`
	Note  string `json:"note,omitempty"`
}

func reportOf(f Finding) checkReport {
	text := f.Text
	if f.Fix != "" {
		text += ": " + f.Fix
	}
	text = untrusted.Plain(text, maxText)
	one := checkReport{Name: untrusted.Plain(f.Subject, maxText), OK: f.Level != Wrong}
	if one.OK {
		one.Note = text
	} else {
		one.Error = text
	}
	return one
}

// String returns the text form: the status, then a line for each check.
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

// answer writes a report. Errors of writing are dropped: the client has gone.
func answer(w http.ResponseWriter, r *http.Request, code int, all report) {
	w.Header().Set("Vary", "Accept")
	if !wantsJSON(r) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(code)
		_, _ = io.WriteString(w, all.String())
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(all)
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
