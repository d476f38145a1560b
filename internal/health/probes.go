package health

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"orgops/internal/untrusted"
)

// maxText bounds each text of an answer, in characters.
const maxText = 500

// Probes answers
//
//	/healthz  200 as long as the process answers at all
//	/readyz   200 if no finding of ready is wrong, else 503; with a line for each finding
//	/metrics  metrics; nil: 404
//
// It is for machines: no answer names a domain or an organization. The ctx of ready ends after 3 s.
func Probes(ready func(ctx context.Context) []Finding, metrics http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, "ok\n")
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
		defer cancel()
		status := "ready"
		code := http.StatusOK
		lines := strings.Builder{}
		for _, f := range ready(ctx) {
			if f.Level == Wrong {
				status = "not ready"
				code = http.StatusServiceUnavailable
			}
			fmt.Fprintln(&lines, lineOf(f))
		}
		answer(w, code, status+"\n"+lines.String())
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

func lineOf(f Finding) string {
	text := f.Text
	if f.Fix != "" {
		text += ": " + f.Fix
	}
	subject := untrusted.Plain(f.Subject, maxText)
	text = untrusted.Plain(text, maxText)
	switch {
	case f.Level == Wrong:
		return subject + ": " + text
	case text != "":
		return subject + ": ok, but " + text
	}
	return subject + ": ok"
}

// answer writes a text. An error of writing is dropped: the client has gone.
func answer(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, text)
}
