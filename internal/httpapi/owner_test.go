package httpapi_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"orgops/internal/httpapi"
	"orgops/internal/logtest"
	"orgops/internal/web"
)

// narrowed is the entry of crm, for all kinds, in the limits that the text adds.
func narrowed(limits string) string {
	return fmt.Sprintf(`- {name: crm, sha256: %s, role: submitter, kinds: ["*"], %s}`+"\n", hashOf(crm), limits)
}

// TestPresentEntryOwnsRuns checks that the present entry of a caller decides which of the runs of
// its name are its: one that was narrowed to a tenant, or to organizations, neither reads nor
// cancels those of others.
func TestPresentEntryOwnsRuns(t *testing.T) {
	const wide = `tenants: ["*"]`
	w := newWorld(t, func(c *httpapi.Config) { c.Access = access(t, narrowed(wide)) })
	submit := func(key, query, body string) string {
		got := w.do(call{method: "POST", path: "/v1/runs/clients:remove" + query, token: crm, key: key, body: body})
		got.want(t, http.StatusAccepted, "")
		return got.run(t).Run
	}
	const head = "organization_id,client_id\n"
	acme := submit("acme", query("tenant", "acme"), head+"org_1,client_1\n")
	one := submit("one", "", head+"org_1,client_1\n")
	both := submit("both", "", head+"org_1,client_1\norg_2,client_1\n")
	twice := submit("twice", query("skip_invalid", "true"), head+"org_1,client_1\n,client_1\n")
	all := []string{acme, one, both, twice}

	for limits, want := range map[string][]string{
		wide:                                      all,
		`tenants: [default]`:                      {one, both, twice},
		`tenants: [other]`:                        {},
		wide + `, organizations: [org_1]`:         {acme, one, twice},
		wide + `, organizations: ["*"]`:           all,
		wide + `, organizations: [org_9]`:         {},
		`tenants: [acme], organizations: [org_2]`: {},
	} {
		t.Run(limits, func(t *testing.T) {
			w.stop()
			w.config.Access = access(t, narrowed(limits))
			w.start()
			list := w.do(call{path: "/v1/runs", token: crm})
			list.want(t, http.StatusOK, "")
			for _, id := range all {
				is := strings.Contains(strings.Join(want, " "), id)
				status, problem := http.StatusNotFound, "not-found"
				if is {
					status, problem = http.StatusOK, ""
				}
				if listed := strings.Contains(list.body, id); listed != is {
					t.Errorf("run %s is listed %t, want %t", id, listed, is)
				}
				for range 2 { // the second answer is remembered
					w.do(call{path: "/v1/runs/" + id, token: crm}).want(t, status, problem)
				}
				w.do(call{path: "/v1/runs/" + id + "/rows", token: crm}).want(t, status, problem)
				if !is {
					w.do(call{method: "POST", path: "/v1/runs/" + id + "/cancel", token: crm}).want(t, status, problem)
				}
			}
		})
	}
}

// TestStreamEndsWithTheTenant checks that a stream of events ends once its caller's entry is
// narrowed to other tenants.
func TestStreamEndsWithTheTenant(t *testing.T) {
	file := filepath.Join(t.TempDir(), "access.yaml")
	write := func(limits string) {
		if err := os.WriteFile(file, []byte(narrowed(limits)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(`tenants: [default]`)
	var later atomic.Int64
	clock := func() time.Time { return time.Unix(later.Load(), 0) }
	entries, err := web.ReadAccess(file, slog.New(slog.NewTextHandler(&logtest.Buffer{}, nil)), clock)
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, func(c *httpapi.Config) { c.Access = entries })
	got := w.do(call{method: "POST", path: "/v1/runs/domain:verify", token: crm, key: "k", body: rows(1)})
	got.want(t, http.StatusAccepted, "")
	ended := make(chan response)
	request := w.request(call{path: "/v1/runs/" + got.run(t).Run + "/events", token: crm})
	stream, err := w.client.Do(request) //nolint:bodyclose // read closes it
	if err != nil {
		t.Fatal(err)
	}
	go func() { ended <- w.read(request, stream) }()
	write(`tenants: [another]`)
	later.Add(3600)
	(<-ended).want(t, http.StatusOK, "")
}
