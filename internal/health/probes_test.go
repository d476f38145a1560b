package health_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"orgops/internal/health"
)

func get(h http.Handler, path string) *http.Response {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.Host = "10.0.0.7:8081" // probes are asked by address, name and service name
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func text(t *testing.T, resp *http.Response) string {
	t.Helper()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func TestProbes(t *testing.T) {
	checks := []health.Finding{{Level: health.OK, Subject: "redis"},
		{Level: health.Wrong, Subject: "tenant a", Text: "blocked: \x1b[31mbad\ntoken"}}
	tests := []struct {
		name   string
		path   string
		checks []health.Finding
		status int
		want   string
	}{
		{"alive", "/healthz", checks, http.StatusOK, "ok\n"},
		{"ready", "/readyz", checks[:1], http.StatusOK, "ready\nredis: ok\n"},
		{"ready, with a note", "/readyz",
			[]health.Finding{{Level: health.Warning, Subject: "dns", Text: "one is\nsilent", Fix: "name another"}},
			http.StatusOK, "ready\ndns: ok, but one is\\nsilent: name another\n"},
		{"ready without checks", "/readyz", nil, http.StatusOK, "ready\n"},
		{"not ready", "/readyz", checks, http.StatusServiceUnavailable,
			"not ready\nredis: ok\ntenant a: blocked: \\x1b[31mbad\\ntoken\n"},
		{"a long error", "/readyz", []health.Finding{{Level: health.Wrong, Subject: "api", Text: strings.Repeat("é", 5000)}},
			http.StatusServiceUnavailable, "not ready\napi: " + strings.Repeat("é", 500) + "…\n"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			h := health.Probes(func(context.Context) []health.Finding { return test.checks }, nil)
			resp := get(h, test.path)
			if resp.StatusCode != test.status {
				t.Errorf("status %d, want %d", resp.StatusCode, test.status)
			}
			if diff := cmp.Diff(test.want, text(t, resp)); diff != "" {
				t.Errorf("body (-want +got):\n%s", diff)
			}
			if got := resp.Header.Get("Content-Type"); got != "text/plain; charset=utf-8" {
				t.Errorf("Content-Type %q, want plain text", got)
			}
		})
	}
}

func TestReadyIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		h := health.Probes(func(ctx context.Context) []health.Finding {
			<-ctx.Done()
			return []health.Finding{{Level: health.Wrong, Subject: "redis", Text: ctx.Err().Error()}}
		}, nil)
		resp := get(h, "/readyz")
		if resp.StatusCode != http.StatusServiceUnavailable ||
			!strings.Contains(text(t, resp), "redis: context deadline exceeded") {
			t.Errorf("readyz: %s, want 503 that names redis", resp.Status)
		}
		if took := time.Since(start); took != 3*time.Second {
			t.Errorf("it took %s, want 3s", took)
		}
	})
}

func TestProbesAreReadOnly(t *testing.T) {
	none := func(context.Context) []health.Finding { return nil }
	h := health.Probes(none, http.NotFoundHandler())
	for _, path := range []string{"/healthz", "/readyz", "/metrics"} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, nil))
		if w.Code != http.StatusMethodNotAllowed {
			t.Errorf("POST %s: %d, want 405", path, w.Code)
		}
	}
	if resp := get(h, "/monitor/"); resp.StatusCode != http.StatusNotFound {
		t.Errorf("the pages on the probes' address: %d, want 404", resp.StatusCode)
	}
	if resp := get(health.Probes(none, nil), "/metrics"); resp.StatusCode != http.StatusNotFound {
		t.Errorf("metrics without any: %d, want 404", resp.StatusCode)
	}
}
