package console_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"orgops/internal/console"
	"orgops/internal/intake"
	"orgops/internal/ledger"
	"orgops/internal/ledgertest"
	"orgops/internal/web"
	"orgops/tasks"
)

// twoTenants returns the pages for users of one tenant and of all, over runs and domains of both.
func twoTenants(t *testing.T, d *desk) (get func(user, path string) *httptest.ResponseRecorder) {
	t.Helper()
	d.handIn("nightly", tasks.TypeVerify, domains(3))
	knows(t, d.ledger, "nightly", "org_0", "dom_0", "zero.example")
	knows(t, d.ledger, "nightly", "org_1", "dom_1", "zebra.example")
	for i := range 12 {
		ledgertest.Create(t, d.ledger, ledger.NewRun{ID: ledger.RunID(fmt.Sprint("night-", i)), Tenant: "other",
			Description: ledger.Description{Label: "label of theirs", Caller: "billing"}})
	}
	in := strings.NewReader("organization_id,discovery_domain_id\norg_9,dom_9\n")
	_, err := d.taker.Submit(t.Context(), intake.Input{Name: "rows", Kind: tasks.TypeVerify, Rows: in},
		ledger.NewRun{ID: "theirs", Tenant: "other"})
	mustNot(t, err)
	knows(t, d.ledger, "theirs", "org_9", "dom_9", "zenith.example")
	file, tokens := access(t,
		web.User{Name: "olga", Role: web.Operator, Tenants: []string{"default"}},
		web.User{Name: "rita", Role: web.Reader, Tenants: []string{"default"}},
		web.User{Name: "all", Role: web.Operator, Tenants: []string{"*"}},
		web.User{Name: "desk", Role: web.Support, Tenants: []string{"default"}, Organizations: []string{"org_1"}},
	)
	h := console.Pages(console.Config{Redis: d.rdb, Ledger: d.ledger, Intake: d.taker, Access: file,
		Logger: slog.New(slog.DiscardHandler)})
	return func(user, path string) *httptest.ResponseRecorder {
		return do(h, http.MethodGet, path, nil, basic(tokens[user]))
	}
}

// TestSearch checks what each text finds for each user, and that nobody learns of another tenant.
func TestSearch(t *testing.T) {
	get := twoTenants(t, newDesk(t))
	for _, test := range []struct {
		user, text string
		leads      string   // to this path; empty: to the page
		finds      []string // on the page
		not        []string
	}{
		{"olga", "nightly", "/runs/nightly?tenant=default", nil, nil},
		{"olga", "dom_0", "/domains?domain=dom_0&organization=org_0&tenant=default", nil, nil},
		{"olga", "ZERO.example", "/domains?domain=dom_0&organization=org_0&tenant=default", nil, nil},
		{"olga", "ze", "", []string{"zero.example", "zebra.example", "organization org_1"}, []string{"zenith", "other"}},
		{"olga", "org_1", "", []string{"Domains of the organization", "zebra.example"}, []string{"zero.example"}},
		{"olga", "org_9", "", []string{"Nothing was found for org_9"}, []string{"zenith"}},
		{"olga", "night", "", []string{"Runs by id", "nightly"}, []string{"night-", "more", "other"}},
		{"olga", "LABEL", "", []string{"Runs by label", "label of nightly"}, []string{"theirs"}},
		{"olga", "billing", "", []string{"Nothing was found"}, []string{"night-", "other"}},
		{"olga", "theirs", "", []string{"Nothing was found"}, []string{"other"}},
		{"rita", "ze", "", []string{"zero.example", "zebra.example"}, []string{"zenith"}},
		{"all", "ze", "", []string{"zero.example", "zenith.example"}, nil},
		{"all", "theirs", "/runs/theirs?tenant=other", nil, nil},
		{"all", "night", "", []string{"night-11", "3 more: enter a longer text"}, []string{"night-0 "}},
		{"all", "billing", "", []string{"Runs by caller", "label of theirs", "2 more"}, nil},
		{"desk", "ze", "/", nil, nil}, // replaced below
		{"desk", "nightly", "", []string{"Nothing was found"}, []string{"Runs", "run's"}},
		{"desk", "label", "", []string{"Nothing was found"}, []string{"Runs"}},
		{"desk", "dom_0", "", []string{"Nothing was found"}, []string{"zero"}},
		{"olga", "", "", []string{"Enter the beginning"}, nil},
	} {
		w := get(test.user, "/search?"+url.Values{"q": {test.text}}.Encode())
		if test.leads == "/" { // the only domain of the user, but by the beginning of its name
			test.leads, test.finds = "", []string{"zebra.example"}
			test.not = []string{"zero.example", "zenith"}
		}
		if got := w.Header().Get("Location"); got != test.leads || (w.Code == http.StatusOK) != (got == "") {
			t.Errorf("%s, %q: %d, leads to %q, want %q", test.user, test.text, w.Code, got, test.leads)
		}
		page := plain(w.Body.String())
		for _, want := range test.finds {
			if !strings.Contains(page, want) {
				t.Errorf("%s, %q: the page lacks %q: %s", test.user, test.text, want, page)
			}
		}
		for _, no := range test.not {
			if strings.Contains(page, no) {
				t.Errorf("%s, %q: the page has %q: %s", test.user, test.text, no, page)
			}
		}
	}
	if page := get("all", "/search?q=billing").Body.String(); link(page, "2 more") != "/runs?caller=billing" {
		t.Errorf("no link to the list of the others: %s", page)
	}
	if page := get("rita", "/runs?caller=billing"); strings.Contains(page.Body.String(), "night-") {
		t.Error("the filter shows a run of another tenant")
	}
}

// TestRunsOfOneRow checks that runs of one row that follow each other are on one line, which leads
// to the list of them.
func TestRunsOfOneRow(t *testing.T) {
	d := newDesk(t)
	for i := range 4 {
		id := fmt.Sprint("single-", i)
		d.handInAs(id, "job")
		d.settle(id, map[bool]string{true: "refused", false: "done"}[i == 1], "", 0)
		time.Sleep(2 * time.Millisecond) // runs are listed by the time of their creation
	}
	page := d.get("/runs")
	if got := listed(page); !slices.Equal(got, []string{"single-3", "single-1", "single-0"}) {
		t.Errorf("lines %q", got)
	}
	path := link(page, "and 1 more of one row")
	if got := listed(d.get(path)); len(got) != 4 {
		t.Errorf("%s lists %q", path, got)
	}
}

// handInAs submits a run of one row with a label.
func (d *desk) handInAs(id, label string) {
	d.t.Helper()
	in := intake.Input{Name: "rows", Kind: tasks.TypeVerify, Rows: strings.NewReader(domains(1))}
	_, err := d.taker.Submit(d.t.Context(), in, ledger.NewRun{ID: ledger.RunID(id), Tenant: "default",
		Description: ledger.Description{Label: label}})
	mustNot(d.t, err)
}
