package httpapi_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"orgops/internal/httpapi"
)

// documented are the statuses that a submission may be answered with, but for
// those that say that the server is at fault.
var documented = []int{200, 202, 400, 401, 403, 404, 405, 408, 413, 415, 422}

// fuzzed sends a request to the server's handler and holds the answer: nothing
// that a client sends is the server's fault.
func fuzzed(t *testing.T, w *world, r *http.Request) *httptest.ResponseRecorder {
	t.Helper()
	out := httptest.NewRecorder()
	w.server.ServeHTTP(out, r)
	if !slices.Contains(documented, out.Code) {
		t.Fatalf("status %d: %s\n%s", out.Code, out.Body, w.log)
	}
	if out.Code >= 400 && out.Header().Get("Content-Type") != "application/problem+json" {
		t.Fatalf("status %d as %s: %s", out.Code, out.Header().Get("Content-Type"), out.Body)
	}
	return out
}

// fuzzWorld is a server with small limits.
func fuzzWorld(f *testing.F) *world {
	f.Helper()
	return newWorld(f, func(c *httpapi.Config) { c.Limits.MaxBytes, c.Limits.MaxRows = 100_000, 50 })
}

// FuzzBody sends any body as rows of any kind.
func FuzzBody(f *testing.F) {
	seeds := []string{
		"", rows(2), rows(51), zipped(f, rows(2)), zipped(f, zipped(f, rows(2))), zipped(f, rows(2))[:30],
		"\x1f\x8b", "\x1f\x8b\x08",
		`{"organization_id":"org_0000000000000000","discovery_domain_id":"ord_0000000000000000000000"}`, "[]", "PK\x03\x04",
		"\xff\xfe", "organization_id\n\"",
		"organization_id,client_id\norg_0000000000000000,c1\n", `{"name":"x"}`, "\xef\xbb\xbf" + rows(1),
		strings.Repeat("x", 100_001),
	}
	for i, body := range seeds {
		f.Add([]byte(body), byte(i), i%2 == 0, "")
		f.Add([]byte(body), byte(0), true, "gzip")
	}
	w := fuzzWorld(f)
	f.Fuzz(func(t *testing.T, body []byte, kind byte, skip bool, coding string) {
		kinds := []string{"domain:verify", "domain:update", "clients:remove", "template:create"}
		path := "/v1/runs/" + kinds[int(kind)%len(kinds)]
		if skip {
			path += "?skip_invalid=1"
		}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(string(body)))
		r.Header.Set("Authorization", "Bearer "+billing)
		r.Header.Set("Idempotency-Key", hashOf(string(body) + path)[:32])
		r.Header.Set("Content-Encoding", coding)
		fuzzed(t, w, r)
	})
}

// FuzzRequest sends any method, path, query and headers.
func FuzzRequest(f *testing.F) {
	for _, path := range []string{"", "/", "/v1/runs", "/v1/runs/x", "/v1/runs/x/failed", "/v1/runs/x/events",
		"/v1/runs/domain:verify", "/v1/runs/x/retry", "/v1/runs/x/cancel", "//", "/v1/../v1/runs", "/v1/runs/%2e%2e"} {
		f.Add("GET", path, "limit=1", "Bearer "+billing, "key", "", "", "")
		f.Add("POST", path, "label=%zz", "", `"key"`, "text/csv", "gzip", "req-1")
		f.Add("POST", path, "tenant=acme&give_up=1h&skip_invalid=1&ignore_columns=a,b&dry_run=1", "Bearer "+crm, "",
			"multipart/form-data", "br", "\x00")
		f.Add("HEAD", path, "after=MTIzIHg", "Bearer "+billing, "k k", "text/csv; charset=x", "identity", "x")
	}
	w := fuzzWorld(f)
	f.Fuzz(func(t *testing.T, method, path, rawQuery, authorization, key, mediaType, coding, id string) {
		r, err := http.NewRequestWithContext(t.Context(), method, "http://x/", io.NopCloser(strings.NewReader(rows(1))))
		if err != nil {
			t.Skip() // no method; net/http's own server refuses it
		}
		r.URL.Path, r.URL.RawQuery, r.RequestURI = path, rawQuery, path
		for name, value := range map[string]string{
			"Authorization": authorization, "Idempotency-Key": key, "Content-Type": mediaType, "Content-Encoding": coding,
			"X-Request-Id": id, "Accept": mediaType, "Last-Event-ID": id,
		} {
			r.Header.Set(name, value)
		}
		out := httptest.NewRecorder()
		w.server.ServeHTTP(out, r)
		if out.Code >= 300 && out.Code < 400 { // net/http cleans paths
			return
		}
		if out.Code != http.StatusNoContent && out.Code != http.StatusNotAcceptable && out.Code != http.StatusConflict &&
			!slices.Contains(documented, out.Code) {
			t.Fatalf("status %d: %s\n%s", out.Code, out.Body, w.log)
		}
		if got := out.Header().Get("X-Request-Id"); got == "" || strings.ContainsAny(got, "\r\n\x00 ") {
			t.Fatalf("request id %q", got)
		}
	})
}
