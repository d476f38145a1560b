package console_test

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"orgops/internal/console"
	"orgops/internal/ledger"
	"orgops/internal/ledgertest"
	"orgops/internal/web"
	"orgops/tasks"
)

// TestOpenWork checks what the bar of asynqmon says: the open rows by what they wait for, and why
// rows are held up, of the user's tenants only.
func TestOpenWork(t *testing.T) {
	d := newDesk(t)
	file, tokens := access(t,
		web.User{Name: "mine", Role: web.Reader, Tenants: []string{"default"}},
		web.User{Name: "all", Role: web.Operator, Tenants: []string{"*"}},
	)
	ask := func(user string, query url.Values) (code int, rows, held string) {
		t.Helper()
		h := console.Pages(console.Config{Redis: d.rdb, Ledger: d.ledger, Access: file, // that has read nothing yet
			Logger: slog.New(slog.DiscardHandler)})
		w := do(h, http.MethodGet, "/monitor/orgops/waiting?"+query.Encode(), nil, basic(tokens[user]))
		var o struct {
			Rows   string
			Held   []string
			Domain string
		}
		if w.Code == http.StatusOK {
			mustNot(t, json.Unmarshal(w.Body.Bytes(), &o))
		}
		return w.Code, o.Rows + o.Domain, strings.Join(o.Held, "\n")
	}
	want := func(user string, query url.Values, wantRows string, wantHeld ...string) {
		t.Helper()
		code, rows, held := ask(user, query)
		if diff := cmp.Diff(wantRows, rows); code != http.StatusOK || diff != "" {
			t.Errorf("%s, %v: %d, rows (-want +got):\n%s", user, query, code, diff)
		}
		for _, text := range wantHeld {
			if !strings.Contains(held, text) {
				t.Errorf("%s, %v: held %q, want %q", user, query, held, text)
			}
		}
		if len(wantHeld) == 0 && held != "" {
			t.Errorf("%s, %v: held %q, want none", user, query, held)
		}
	}
	want("all", nil, "")
	d.handIn("a", tasks.TypeVerify, domains(3))
	ledgertest.Submit(t, d.ledger, ledger.NewRun{ID: "theirs", Tenant: "other"},
		`{"organization_id":"org_9","discovery_domain_id":"dom_9"}`)
	want("mine", nil, "3 rows held up", "default: no worker of tenant default has been seen")
	d.serve()
	ledgertest.Wait(t, d.ledger, "a", "not_yet: no record", time.Minute, 1)
	want("mine", nil, "2 rows in progress or waiting for permits, 1 row waiting for DNS")
	want("all", nil, "1 row held up, 2 rows in progress or waiting for permits, 1 row waiting for DNS",
		"other: no worker of tenant other")
	want("all", url.Values{"tenant": {"other"}}, "1 row held up", "other: no worker of tenant other")
	if code, _, _ := ask("mine", url.Values{"tenant": {"other"}}); code != http.StatusNotFound {
		t.Errorf("mine, of the other tenant: %d, want 404", code)
	}
	mustNot(t, ledgertest.Control(t.Context(), d.ledger, (*ledger.Ledger).Pause, "a"))
	want("mine", nil, "3 rows held up", "default: paused; to continue: enqueue runs resume a")
	knows(t, d.ledger, "a", "org_1", "dom_1", "one.example")
	want("mine", url.Values{"tenant": {"default"}, "domain": {"dom_none"}}, "3 rows held up", "paused")
	want("mine", url.Values{"tenant": {"default"}, "domain": {"dom_1"}}, "3 rows held upone.example", "paused")
}

// TestMonitorFiles checks that browsers keep asynqmon's files, whose names have a hash, and that
// its lists name run, segment and row of a task.
func TestMonitorFiles(t *testing.T) {
	p := newPages(t)
	page := text(t, p.do(http.MethodGet, "/monitor/"))
	_, script, _ := strings.Cut(page, `/monitor/static/js/main.`)
	script, _, _ = strings.Cut(script, `"`)
	answer := p.do(http.MethodGet, "/monitor/static/js/main."+script)
	if got := answer.Header.Get("Cache-Control"); got != "private, max-age=31536000, immutable" {
		t.Errorf("Cache-Control %q", got)
	}
	if !strings.Contains(text(t, answer), `e.lastIndexOf(":")`) {
		t.Error("the script still cuts ids at their first hyphen")
	}
	if got := p.do(http.MethodGet, "/monitor/").Header.Get("Cache-Control"); got != "no-store" {
		t.Errorf("the page: Cache-Control %q", got)
	}
}
