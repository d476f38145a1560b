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

	"orgops/internal/activity"
	"orgops/internal/console"
	"orgops/internal/intake"
	"orgops/internal/ledger"
	"orgops/internal/ledgertest"
	"orgops/internal/web"
	"orgops/tasks"
)

// twoTenants returns the pages for users of one tenant and of all, over runs and domains of both.
func twoTenants(t *testing.T, d *desk) (get func(user, path string) *httptest.ResponseRecorder,
	post func(user, path string, form url.Values) *httptest.ResponseRecorder) {
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
		},
		func(user, path string, form url.Values) *httptest.ResponseRecorder {
			return do(h, http.MethodPost, path, form, basic(tokens[user]))
		}
}

// TestSearch checks what each text finds for each user, and that nobody learns of another tenant.
func TestSearch(t *testing.T) {
	get, _ := twoTenants(t, newDesk(t))
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

// TestSelection checks preview and execution of actions on several runs: the counts, which runs are
// left out, the reason in the history, and that another tenant is neither shown nor changed.
func TestSelection(t *testing.T) {
	d := newDesk(t)
	get, post := twoTenants(t, d)
	d.handIn("failed", tasks.TypeVerify, domains(2))
	d.settle("failed", "refused", "404", 0, 1)
	d.handIn("quiet", tasks.TypeVerify, domains(4))
	mustNot(t, d.ledger.Pause(t.Context(), "default", "quiet"))
	chosen := url.Values{"run": {"default/nightly", "default/failed", "default/quiet", "other/theirs", "default/none",
		"x"}}
	says := func(path string, wanted ...string) string {
		t.Helper()
		w := get("olga", path)
		for _, want := range wanted {
			if page := plain(w.Body.String()); w.Code != http.StatusOK || !strings.Contains(page, want) {
				t.Errorf("%s: %d lacks %q: %s", path, w.Code, want, page)
			}
		}
		return w.Body.String()
	}
	for action, wanted := range map[string][]string{
		"pause":  {"Pause 1 run", "3 open rows", "default: 1", "1: done, 2 failed", "1: paused", "other/theirs"},
		"resume": {"Resume 1 run", "4 open rows"},
		"cancel": {"Cancel 2 runs", "7 open rows"},
		"retry":  {"Retry failed rows of 1 run", "2 failed rows"},
	} {
		says("/selection?action="+action+"&"+chosen.Encode(), wanted...)
	}
	says("/selection?action=pause&all=1&label=of+quiet", "None of the runs allows it")
	if page := says("/selection?action=cancel&all=1", "Cancel 2 runs"); strings.Contains(page, "other") {
		t.Errorf("the preview shows another tenant: %s", page)
	}
	for path, code := range map[string]int{"/selection?action=delete": 400, "/selection?action=pause&all=1&state=odd": 400} {
		if w := get("olga", path); w.Code != code {
			t.Errorf("%s: %d, want %d", path, w.Code, code)
		}
	}

	form := url.Values{"action": {"pause"}, "run": chosen["run"]}
	if w := post("olga", "/selection", form); w.Code != http.StatusBadRequest || d.run("nightly").Paused {
		t.Errorf("without a reason: %d", w.Code)
	}
	form.Set("reason", "ticket 4711")
	w := post("olga", "/selection", form)
	page := plain(get("olga", w.Header().Get("Location")).Body.String())
	for _, want := range []string{"pause: done for 1 run.", "Left out: 1 (done, 2 failed).", "Left out: 1 (paused).",
		"Left out: 3 (not found)."} {
		if !strings.Contains(page, want) {
			t.Errorf("the result lacks %q: %s", want, page)
		}
	}
	if !d.run("nightly").Paused || d.run("theirs").Paused {
		t.Error("not the chosen run is paused, or one of another tenant")
	}
	acts, _, err := activity.Page(t.Context(), d.rdb, activity.Query{Tenants: []string{"default"}, Run: "nightly",
		Action: activity.Paused, Limit: 9})
	if err != nil || len(acts) != 1 || acts[0].By != "olga" || acts[0].Result != "ticket 4711" {
		t.Errorf("history %+v, %v", acts, err)
	}

	form = url.Values{"action": {"retry"}, "run": {"default/failed"}, "reason": {"fixed"}}
	w = post("olga", "/selection", form)
	page = plain(get("olga", w.Header().Get("Location")).Body.String())
	if run := d.run("failed"); !strings.Contains(page, "retry: done for 1 run.") || len(run.Children) != 1 {
		t.Errorf("children %v: %s", run.Children, page)
	}
	w = post("olga", "/selection", form)
	page = plain(get("olga", w.Header().Get("Location")).Body.String())
	if !strings.Contains(page, "Failed: 1: run failed: ") {
		t.Errorf("a second retry: %s", page)
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

// TestDomainOfWhicheverTenant finds a domain without its tenant in those of the user, and lists
// those of several tenants.
func TestDomainOfWhicheverTenant(t *testing.T) {
	d := newDesk(t)
	get, _ := twoTenants(t, d)
	knows(t, d.ledger, "nightly", "org_1", "dom_2", "both.example")
	knows(t, d.ledger, "theirs", "org_8", "dom_8", "both.example")
	for _, c := range []struct {
		user, query string
		code        int
		has, not    string
	}{
		{"all", "domain=zenith.example", 200, "<dt>Tenant</dt><dd>other</dd>", ""},
		{"all", "domain=dom_0", 200, "<dt>Tenant</dt><dd>default</dd>", ""},
		{"all", "organization=org_9&domain=dom_9", 200, "<dt>Tenant</dt><dd>other</dd>", ""},
		{"all", "domain=both.example", 200, "organization org_8 of tenant other", ""},
		{"all", "tenant=other&domain=both.example", 200, "<dt>Tenant</dt><dd>other</dd>", "dom_2"},
		{"all", "domain=none.example", 400, "no domain of your tenants has that id", ""},
		{"all", "tenant=nobody&domain=none.example", 404, "there is no tenant nobody", ""},
		{"all", "tenant=other&organization=ord_9&domain=org_9", 400, "are the two swapped?", ""},
		{"olga", "domain=both.example", 200, "<dt>Tenant</dt><dd>default</dd>", "dom_8"},
		{"olga", "domain=zenith.example", 400, "no domain of tenant default has that id", "org_9"},
		{"olga", "tenant=other&domain=zenith.example", 404, "there is no tenant other", "org_9"},
	} {
		w := get(c.user, "/domains?"+c.query)
		page := w.Body.String()
		has := strings.Contains(page, c.has) || strings.Contains(plain(page), c.has)
		if w.Code != c.code || !has {
			t.Errorf("%s, %s: %d lacks %q: %s", c.user, c.query, w.Code, c.has, page)
		}
		if c.not != "" && strings.Contains(page, c.not) {
			t.Errorf("%s, %s: the page has %q", c.user, c.query, c.not)
		}
	}
	w := get("all", "/runs/nightly?tenant=nobody")
	if page := plain(w.Body.String()); w.Code != 404 || !strings.Contains(page, "There is no tenant nobody") {
		t.Errorf("a run of no tenant: %d %s", w.Code, page)
	}

	// A name that no tenant can have is not asked of Redis: it is no fault of Redis.
	for path, want := range map[string]int{
		"/runs?tenant=":                        404,
		"/runs/nightly?tenant=":                404,
		"/domains?domain=none.example&tenant=": 400,
		"/tenants?tenant=":                     200,
	} {
		w := get("all", path+url.QueryEscape("<script>"))
		if w.Code != want {
			t.Errorf("%s: %d %s, want %d", path, w.Code, plain(w.Body.String()), want)
		}
	}
}
