package httpapi_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"orgops/internal/httpapi"
	"orgops/internal/logtest"
)

func TestTokens(t *testing.T) {
	w := newWorld(t)
	tests := []struct {
		name      string
		header    http.Header
		challenge string
	}{
		{"none", nil, `Bearer realm="orgops"`},
		{"unknown", http.Header{"Authorization": {"Bearer " + strings.Repeat("x", 40)}}, `Bearer realm="orgops", error="invalid_token"`},
		{"another scheme", http.Header{"Authorization": {"Basic " + billing}}, `Bearer realm="orgops"`},
		{"no token", http.Header{"Authorization": {"Bearer"}}, `Bearer realm="orgops"`},
		{"an empty token", http.Header{"Authorization": {"Bearer "}}, `Bearer realm="orgops"`},
		{"two", http.Header{"Authorization": {"Bearer " + billing, "Bearer " + crm}}, `Bearer realm="orgops"`},
		{"the hash", http.Header{"Authorization": {"Bearer " + hashOf(billing)}}, `Bearer realm="orgops", error="invalid_token"`},
	}
	paths := map[string]string{
		"/v1/runs": "GET", "/v1/runs/x": "GET", "/v1/runs/x/failed": "GET", "/v1/runs/x/events": "GET",
		"/v1/runs/domain:verify": "POST", "/v1/runs/x/cancel": "POST", "/v1/runs/x/retry": "POST",
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for path, method := range paths {
				got := w.do(call{method: method, path: path, header: test.header})
				got.want(t, 401, "unauthenticated")
				if got.Header.Get("WWW-Authenticate") != test.challenge {
					t.Errorf("%s: WWW-Authenticate %s, want %s", path, got.Header.Get("WWW-Authenticate"), test.challenge)
				}
			}
		})
	}
	w.do(call{path: "/v1/runs", header: http.Header{"Authorization": {"bearer " + billing}}}).want(t, 200, "")
	w.do(call{path: "/healthz"}).want(t, 200, "")
	if strings.Contains(w.log.String(), billing) || strings.Contains(w.log.String(), crm) {
		t.Error("a token is in the log")
	}
}

func TestPermissions(t *testing.T) {
	w := newWorld(t)
	tests := []struct {
		name, path string
		status     int
		detail     string
	}{
		{"its kind, its tenant", "/v1/runs/domain:verify?tenant=acme", 202, ""},
		{"its only tenant by default", "/v1/runs/domain:verify", 202, `"tenant":"acme"`},
		{"another kind", "/v1/runs/domain:update", 403, "domain:update"},
		{"another tenant", "/v1/runs/domain:verify?tenant=default", 403, "default"},
	}
	for i, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := w.do(call{method: "POST", path: test.path, token: crm, key: fmt.Sprint("k", i), body: rows(1)})
			got.want(t, test.status, map[int]string{403: "not-allowed"}[test.status])
			if !strings.Contains(got.body, test.detail) {
				t.Errorf("%q is not in %s", test.detail, got.body)
			}
		})
	}
}

// TestScope holds that a run is nobody's but its caller's.
func TestScope(t *testing.T) {
	w := newWorld(t)
	run := w.submit("k", rows(1))
	w.sealed(run.Run)
	for path, method := range map[string]string{"": "GET", "/failed": "GET", "/events": "GET", "/cancel": "POST", "/retry": "POST"} {
		w.do(call{method: method, path: "/v1/runs/" + run.Run + path, token: crm, key: "k"}).want(t, 404, "not-found")
	}
	if got := w.do(call{path: "/v1/runs", token: crm}); got.body != `{"runs":[],"next":null}`+"\n" {
		t.Errorf("crm sees %s", got.body)
	}
	if r := w.sealed(run.Run); r.Ended() {
		t.Errorf("run %+v was cancelled by another", r)
	}
}

func TestTokensFile(t *testing.T) {
	one := fmt.Sprintf("{name: a, sha256: %s, kinds: ['*'], tenants: ['*']}", hashOf("t"))
	tests := []struct {
		name, text, want string
	}{
		{"nothing", "", "line 1: tokens: want at least one"},
		{"no tokens", "tokens: []", "want at least one"},
		{"an unknown member", "tokens:\n  - " + one + "\nextra: 1", "line 3: unknown member extra"},
		{"an unknown member of a token", "tokens:\n  - {name: a, hash: b}", "line 2: unknown member hash"},
		{"no YAML", "tokens: [", "line 1"},
		{"another type", "tokens:\n  - {name: a, kinds: all}", "line 2: cannot unmarshal"},
		{"no name", "tokens:\n  - {sha256: " + hashOf("t") + "}", "line 2: name: want"},
		{"a name with blanks", "tokens:\n  - {name: a b}", "line 2: name: want"},
		{"no hash", "tokens:\n  - {name: a}", "line 2: sha256: want"},
		{"a hash too short", "tokens:\n  - {name: a, sha256: abcd}", "line 2: sha256: want"},
		{"the hash of nothing", "tokens:\n  - {name: a, sha256: " + hashOf("") + "}", "hash of an empty token"},
		{"no kinds", "tokens:\n  - {name: a, sha256: " + hashOf("t") + ", tenants: ['*']}", "line 2: kinds: want a list"},
		{"an unknown kind", "tokens:\n  - {name: a, sha256: " + hashOf("t") + ", kinds: [x], tenants: ['*']}", "domain:verify"},
		{"no tenants", "tokens:\n  - {name: a, sha256: " + hashOf("t") + ", kinds: ['*']}", "line 2: tenants: want a list"},
		{"a tenant that is none", "tokens:\n  - {name: a, sha256: " + hashOf("t") + ", kinds: ['*'], tenants: ['A B']}", "line 2: tenants: "},
		{"two of a hash", "tokens:\n  - " + one + "\n  - " + one, "line 3: sha256: another"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "tokens.yaml")
			if err := os.WriteFile(file, []byte(test.text), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := httpapi.ReadTokens(file, slog.New(slog.DiscardHandler), time.Now)
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), file) {
				t.Errorf("error %v, want one with the file and %q", err, test.want)
			}
		})
	}
	t.Run("JSON", func(t *testing.T) {
		tokens(t, fmt.Sprintf(`{"tokens": [{"name": "a", "sha256": %q, "kinds": ["*"], "tenants": ["*"]}]}`, hashOf("t")))
	})
	t.Run("none", func(t *testing.T) {
		if _, err := httpapi.ReadTokens(filepath.Join(t.TempDir(), "none"), slog.New(slog.DiscardHandler), time.Now); err == nil {
			t.Error("no error")
		}
	})
}

// TestTokensFileChanges has the file rewritten: what it holds counts after a few
// seconds, and what it cannot hold never does.
func TestTokensFileChanges(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens.yaml")
	changed := time.Now()
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		changed = changed.Add(time.Second)
		if err := os.Chtimes(file, changed, changed); err != nil {
			t.Fatal(err)
		}
	}
	entry := func(name, token string) string {
		return fmt.Sprintf("  - {name: %s, sha256: %s, kinds: ['*'], tenants: ['*']}\n", name, hashOf(token))
	}
	now := time.Now()
	write("tokens:\n" + entry("a", "old"))
	var log logtest.Buffer
	all, err := httpapi.ReadTokens(file, slog.New(slog.NewTextHandler(&log, nil)), func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	known := func() map[string]string {
		got := map[string]string{}
		for _, token := range []string{"old", "new"} {
			if name, ok := all.Find(token); ok {
				got[token] = name
			}
		}
		return got
	}
	steps := []struct {
		name string
		do   func()
		want map[string]string
	}{
		{"at first", func() {}, map[string]string{"old": "a"}},
		{"changed just now", func() { write("tokens:\n" + entry("a", "old") + entry("a", "new")) }, map[string]string{"old": "a"}},
		{"a while after", func() { now = now.Add(5 * time.Second) }, map[string]string{"old": "a", "new": "a"}},
		{"broken", func() { write("tokens: ["); now = now.Add(5 * time.Second) }, map[string]string{"old": "a", "new": "a"}},
		{"gone", func() { _ = os.Remove(file); now = now.Add(5 * time.Second) }, map[string]string{"old": "a", "new": "a"}},
		{"whole again", func() { write("tokens:\n" + entry("b", "new")); now = now.Add(5 * time.Second) }, map[string]string{"new": "b"}},
	}
	for _, step := range steps {
		t.Run(step.name, func(t *testing.T) {
			step.do()
			if diff := cmp.Diff(step.want, known()); diff != "" {
				t.Errorf("known tokens (-want +got):\n%s", diff)
			}
		})
	}
	if n := strings.Count(log.String(), "changed file not usable"); n != 2 {
		t.Errorf("logged %d times that the file is not usable, want 2:\n%s", n, log.String())
	}
}

// TestWithoutTokens tests a server without authentication.
func TestWithoutTokens(t *testing.T) {
	w := newWorld(t, func(c *httpapi.Config) { c.Tokens = nil })
	w.do(call{method: "POST", path: "/v1/runs/clients:remove?tenant=any", key: "k", body: "organization_id,client_id\norg_0000000000000000,client-1\n"}).want(t, 202, "")
	for name, change := range map[string]func(r *http.Request){
		"by another name":   func(r *http.Request) { r.Host = "evil.example" },
		"from another site": func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") },
	} {
		t.Run(name, func(t *testing.T) {
			r := w.request(call{method: "POST", path: "/v1/runs/x/cancel"})
			change(r)
			got, err := w.client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			w.read(r, got).want(t, 403, "not-allowed")
		})
	}
	r := w.request(call{path: "/v1/runs"})
	r.Host = "localhost:8082"
	got, err := w.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	w.read(r, got).want(t, 200, "")
}
