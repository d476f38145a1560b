package console_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"orgops/internal/console"
	"orgops/internal/intake"
	"orgops/internal/ledger"
	"orgops/internal/ledgertest"
	"orgops/internal/logtest"
	"orgops/internal/pace"
	"orgops/internal/redistest"
	"orgops/internal/results"
	"orgops/internal/sweep"
	"orgops/internal/tenant"
	"orgops/internal/web"
	"orgops/tasks"
)

// desk has the operator's pages over a ledger and queues without a worker.
type desk struct {
	t         *testing.T
	rdb       redis.UniversalClient
	ledger    *ledger.Ledger
	taker     intake.Intake
	inspector *asynq.Inspector
	pages     http.Handler // that act
	shown     http.Handler // that only show
	log       *logtest.Buffer
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	rdb := redistest.Open(t)
	d := &desk{t: t, rdb: rdb, ledger: ledger.New(rdb), inspector: asynq.NewInspectorFromRedisClient(rdb),
		log: &logtest.Buffer{}}
	d.taker = intake.New(rdb, d.ledger)
	if _, err := tenant.Announce(t.Context(), rdb, tenant.Announced{Tenant: "default", Rate: "10/s", Burst: 10,
		MaxClientsPerRequest: 100}); err != nil {
		t.Fatal(err)
	}
	config := console.Config{
		Redis: rdb, Ledger: d.ledger, Intake: d.taker, Tenants: func() []console.Tenant {
			return []console.Tenant{servedHere(tenant.Announced{Tenant: "default"})}
		},
		Logger: slog.New(slog.NewTextHandler(d.log, nil)),
	}
	config.Unsigned = web.Reader
	d.shown = console.Pages(config)
	config.Unsigned = web.Operator
	d.pages = console.Pages(config)
	return d
}

// livingWorker is the session of a worker.
const livingWorker = ledger.SessionID("worker0000000000")

// serve has a worker serve the tenant default for some seconds.
func (d *desk) serve() {
	d.t.Helper()
	_, err := d.ledger.Renew(d.t.Context(), ledger.Session{ID: livingWorker, Tenants: []ledger.Tenant{"default"}})
	mustNot(d.t, err)
}

// handIn submits rows as a run.
func (d *desk) handIn(id, kind, rows string) ledger.Run {
	d.t.Helper()
	in := intake.Input{Name: "rows", Kind: kind, SkipInvalid: true, Rows: strings.NewReader(rows)}
	if _, err := d.taker.Submit(d.t.Context(), in, ledger.NewRun{ID: ledger.RunID(id), Tenant: "default",
		Description: ledger.Description{Label: "label of " + id}}); err != nil {
		d.t.Fatal(err)
	}
	return d.run(id)
}

// domains returns n rows of domains.
func domains(rows int) string {
	var b strings.Builder
	b.WriteString("organization_id,discovery_domain_id\n")
	for i := range rows {
		fmt.Fprintf(&b, "org_%d,dom_%d\n", i%3, i)
	}
	return b.String()
}

func (d *desk) run(id string) ledger.Run {
	d.t.Helper()
	r, err := d.ledger.Get(d.t.Context(), "", ledger.RunID(id))
	if err != nil {
		d.t.Fatal(err)
	}
	return r
}

// header reads the header of a run of the core.
func (d *desk) header(id string) ledger.Run {
	d.t.Helper()
	r, err := d.ledger.Get(d.t.Context(), "", ledger.RunID(id))
	mustNot(d.t, err)
	return r
}

func firstSegment(r ledger.Run) ledger.Segment {
	return ledger.Segment{Tenant: r.Tenant, Run: r.ID, Incarnation: r.Incarnation}
}

func ledgerRows(items []int64) []ledger.Row {
	rows := make([]ledger.Row, len(items))
	for i, item := range items {
		rows[i] = ledger.Row(item)
	}
	return rows
}

// settle settles rows of a small run that no worker has started.
func (d *desk) settle(id, outcome, detail string, items ...int64) {
	d.t.Helper()
	_, err := d.ledger.Dismiss(d.t.Context(), firstSegment(d.header(id)),
		ledger.Result{Outcome: ledger.Outcome(outcome), Detail: detail}, ledgerRows(items)...)
	mustNot(d.t, err)
}

// begin starts a row of a small run.
func (d *desk) begin(id string, item int64) (seg ledger.Segment, nonce ledger.Nonce) {
	d.t.Helper()
	core, seg := d.ledger, firstSegment(d.header(id))
	released, err := core.Release(d.t.Context(), seg, ledger.Quota{First: 250})
	mustNot(d.t, err)
	var others []ledger.Row
	for _, row := range released.Rows {
		if int64(row.Row) != item {
			others = append(others, row.Row)
		}
	}
	_, err = core.GiveBack(d.t.Context(), seg, released.Token, others...)
	mustNot(d.t, err)
	x := ledger.Execution{Token: released.Token, Nonce: ledger.NewNonce(), Session: ledger.NewSessionID()}
	_, err = core.Renew(d.t.Context(), ledger.Session{ID: x.Session})
	mustNot(d.t, err)
	_, err = core.Begin(d.t.Context(), seg, x, ledger.Row(item))
	mustNot(d.t, err)
	return seg, x.Nonce
}

// note leaves a row of a small run open for an hour, with a note.
func (d *desk) note(id string, item int64, text string) {
	d.t.Helper()
	seg, nonce := d.begin(id, item)
	_, err := d.ledger.End(d.t.Context(), seg, nonce,
		ledger.Ends(ledger.GiveBack{After: time.Hour, Note: text}, ledger.Row(item))...)
	mustNot(d.t, err)
}

func do(h http.Handler, method, path string, form url.Values, changes ...change) *httptest.ResponseRecorder {
	var body io.Reader
	if form != nil {
		body = strings.NewReader(form.Encode())
	}
	r := httptest.NewRequest(method, path, body)
	r.Host = "127.0.0.1:8080"
	r.Header.Set("Origin", "http://127.0.0.1:8080")
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for _, change := range changes {
		change(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// get returns a page, which must exist.
func (d *desk) get(path string, changes ...change) string {
	d.t.Helper()
	w := do(d.pages, http.MethodGet, path, nil, changes...)
	if w.Code != http.StatusOK {
		d.t.Fatalf("GET %s: %d: %s", path, w.Code, plain(w.Body.String()))
	}
	return w.Body.String()
}

// post sends a form, and returns the page that it leads to, and where that is.
func (d *desk) post(path string, form url.Values) (page, at string) {
	d.t.Helper()
	w := do(d.pages, http.MethodPost, path, form)
	if w.Code != http.StatusSeeOther {
		d.t.Fatalf("POST %s: %d, want 303: %s", path, w.Code, plain(w.Body.String()))
	}
	at, _, _ = strings.Cut(w.Header().Get("Location"), "?")
	return plain(d.get(w.Header().Get("Location"))), at
}

var (
	tags   = regexp.MustCompile(`<[^>]*>`)
	spaces = regexp.MustCompile(`\s+`)
)

// plain returns the text of a page's content.
func plain(page string) string {
	_, page, _ = strings.Cut(page, `<main id="content" tabindex="-1">`)
	page, _, _ = strings.Cut(page, "</main>")
	text := tags.ReplaceAllString(joined(page), " ")
	return spaces.ReplaceAllString(html.UnescapeString(text), " ")
}

// joined returns a page without the places at which names may be broken.
func joined(page string) string {
	unbroken := regexp.MustCompile(`<span class="unbroken">([^<]*)</span>`)
	return unbroken.ReplaceAllString(strings.ReplaceAll(page, "<wbr>", ""), "$1")
}

// listed returns the IDs of the runs on a page, in order.
func listed(page string) (ids []string) {
	for _, match := range regexp.MustCompile(`<tr id="run-([^"]*)"`).FindAllStringSubmatch(page, -1) {
		ids = append(ids, match[1])
	}
	return ids
}

// link returns the target of the page's link with that text, or "".
func link(page, text string) string {
	match := regexp.MustCompile(`<a[^>]* href="([^"]*)"[^>]*>` + regexp.QuoteMeta(text) + `</a>`).FindStringSubmatch(page)
	if match == nil {
		return ""
	}
	return strings.ReplaceAll(match[1], "&amp;", "&")
}

func mustNot(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestEveryStateOfARun checks that both pages show the state of a run and offer its actions,
// for every state.
func TestEveryStateOfARun(t *testing.T) {
	tests := []struct {
		name  string
		make  func(d *desk)
		want  []string // on both pages
		offer []string // on the run's
	}{
		{
			"open", func(d *desk) {
				d.handIn("a", tasks.TypeVerify, domains(4))
				d.settle("a", "done", "", 0)
				d.note("a", 1, "not_yet: no TXT record at h.example")
			},
			[]string{"open", "1 of 4 rows settled", "1 done", "1 waits for DNS"}, []string{"pause", "cancel", "check"},
		},
		{
			"submitted", func(d *desk) {
				ledgertest.Create(d.t, d.ledger, ledger.NewRun{ID: "a"})
			},
			[]string{"being submitted", "0 rows settled, 0 submitted so far", "none settled"}, []string{"pause", "cancel"},
		},
		{
			"silent", func(d *desk) {
				run := ledgertest.Create(d.t, d.ledger, ledger.NewRun{ID: "a"})
				hourAgo := time.Now().Add(-time.Hour).UnixMilli()
				mustNot(d.t, d.rdb.HSet(d.t.Context(), "orgops:v3:{tenant:default}:run:"+string(run.ID)+":header",
					"created_at", hourAgo,
					"staged_at", hourAgo).Err())
			},
			[]string{"producer: silent since", "enqueue runs cancel a"}, []string{"pause", "cancel"},
		},
		{
			"paused", func(d *desk) {
				d.handIn("a", tasks.TypeVerify, domains(4))
				mustNot(d.t, ledgertest.Control(d.t.Context(), d.ledger, (*ledger.Ledger).Pause, "a"))
			},
			[]string{"paused; to continue: enqueue runs resume a"}, []string{"resume", "cancel"},
		},
		{
			"ended well", func(d *desk) {
				d.handIn("a", tasks.TypeVerify, domains(2))
				d.settle("a", "done", "", 0, 1)
			},
			[]string{"done", "2 of 2 rows settled", "2 done"}, nil,
		},
		{
			"ended unwell", func(d *desk) {
				d.handIn("a", tasks.TypeVerify, domains(2))
				d.settle("a", "refused", "404: no such domain", 0, 1)
			},
			[]string{"done, 2 failed", "2 refused"}, []string{"retry"},
		},
		{
			"invalid alone", func(d *desk) {
				d.handIn("a", tasks.TypeVerify, domains(1)+"org_1,\n")
				d.settle("a", "done", "", 0)
			},
			[]string{"done, 1 failed", "1 invalid"}, nil,
		},
		{
			"cancelled", func(d *desk) {
				d.handIn("a", tasks.TypeVerify, domains(2))
				err := d.ledger.Cancel(d.t.Context(), "default", "a")
				mustNot(d.t, err)
			},
			[]string{"cancelled", "2 cancelled"}, []string{"retry"},
		},
		{
			"under way", func(d *desk) {
				d.handIn("a", tasks.TypeVerify, domains(2))
				seg, nonce := d.begin("a", 1)
				_, err := d.ledger.Intend(d.t.Context(), seg, nonce, []byte("x"), 1)
				mustNot(d.t, err)
				err = d.ledger.Cancel(d.t.Context(), "default", "a")
				mustNot(d.t, err)
			},
			[]string{"cancelled; 1 row is in progress and finishes first", "1 cancelled"}, []string{"retry"},
		},
		{
			"walking", func(d *desk) {
				_, _, err := d.taker.BeginPending(d.t.Context(), "", ledger.NewRun{ID: "a", Tenant: "default"})
				mustNot(d.t, err)
			},
			[]string{"scanning for rows", "organizations read: 0", "0 found so far"}, []string{"pause", "cancel"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := newDesk(t)
			tt.make(d)
			list, one := d.get("/runs"), d.get("/runs/a")
			if got := listed(list); !slices.Equal(got, []string{"a"}) {
				t.Errorf("runs on the page: %q, want a", got)
			}
			for _, want := range tt.want {
				for path, page := range map[string]string{"/runs": list, "/runs/a": one} {
					if !strings.Contains(plain(page), want) {
						t.Errorf("%s does not say %q: %s", path, want, plain(page))
					}
				}
			}
			if got := offered(one); !slices.Equal(got, tt.offer) {
				t.Errorf("actions %q, want %q", got, tt.offer)
			}
			if got := offered(do(d.shown, http.MethodGet, "/runs/a", nil).Body.String()); got != nil {
				t.Errorf("pages that only show offer %q", got)
			}
		})
	}
}

func offered(page string) (actions []string) {
	for _, match := range regexp.MustCompile(`action="/runs/a/([a-z]+)"`).FindAllStringSubmatch(page, -1) {
		if !slices.Contains(actions, match[1]) { // of an outcome, and of chosen rows
			actions = append(actions, match[1])
		}
	}
	return actions
}

func TestRunsAreFilteredAndPaged(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	var all []string
	for i := range 120 {
		n := ledger.NewRun{ID: ledger.RunID(fmt.Sprintf("r-%03d", i))}
		if n.Label = fmt.Sprint("number ", i); i == 8 || i == 119 {
			n.Caller = "Billing"
		}
		if i%3 == 0 {
			n.Tenant, n.Kind = "acme", tasks.TypeRemove
		}
		run := ledgertest.Create(t, d.ledger, n)
		if i%4 == 0 {
			ledgertest.Commit(t, d.ledger, run)
		}
		all = append([]string{string(n.ID)}, all...)
		time.Sleep(2 * time.Millisecond) // runs are listed by the time of their creation
	}
	of := func(is func(i int) bool) (ids []string) {
		for at, id := range all {
			if is(len(all) - 1 - at) {
				ids = append(ids, id)
			}
		}
		return ids
	}
	open, ended := of(func(i int) bool { return i%4 != 0 }), of(func(i int) bool { return i%4 == 0 })
	acme := append(of(func(i int) bool { return i%3 == 0 && i%4 != 0 }), of(func(i int) bool { return i%12 == 0 })...)
	tests := map[string][]string{
		"/runs":                         append(slices.Clone(open[:50]), ended...),
		"/runs?tenant=acme":             acme,
		"/runs?kind=clients:remove":     acme,
		"/runs?state=ended":             ended,
		"/runs?state=open":              open,
		"/runs?tenant=acme&state=ended": of(func(i int) bool { return i%12 == 0 }),
		"/runs?label=NUMBER+7&state=open&since=1h": {"r-079", "r-078", "r-077", "r-075",
			"r-074", "r-073", "r-071", "r-070", "r-007"},
		"/runs?caller=Billing&until=2000-01-01": nil,
		"/runs?caller=Billing":                  {"r-119", "r-008"},
	}
	for path, want := range tests {
		var got []string
		pages := 0
		for next := path; next != ""; pages++ {
			page := d.get(next)
			got = append(got, listed(page)...)
			next = link(page, "Older")
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
		if most := len(want)/50 + 1; pages > most {
			t.Errorf("%s: %d pages, want %d", path, pages, most)
		}
	}
	if page := d.get("/runs"); link(page, "All open runs") != "/runs?state=open" {
		t.Error("no link to the open runs that are not on the page")
	}
	for _, path := range []string{"/runs?state=odd", "/runs?since=soon", "/runs?until=x",
		"/runs?after=x", "/runs?after=12-..%2F"} {
		if code := do(d.pages, http.MethodGet, path, nil).Code; code != http.StatusBadRequest {
			t.Errorf("GET %s: %d, want 400", path, code)
		}
	}
}

// TestFailedRowsAreFilteredAndPaged checks that each failed row is on one page, with its
// reason and a link to its details.
func TestFailedRowsAreFilteredAndPaged(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.handIn("a", tasks.TypeVerify, domains(180))
	for i := range int64(180) {
		switch {
		case i%2 == 0:
			d.settle("a", "refused", fmt.Sprintf("404: no domain number %d", i), i)
		case i%3 == 0:
			d.settle("a", "expired", "No TXT record.", i)
		default:
			d.settle("a", "done", "", i)
		}
	}
	rows := func(is func(i int) bool) (items []string) {
		for i := range 180 {
			if is(i) {
				items = append(items, fmt.Sprint(i))
			}
		}
		return items
	}
	tests := map[string][]string{
		"/runs/a":                         rows(func(i int) bool { return i%2 == 0 || i%3 == 0 }),
		"/runs/a?outcome=expired":         rows(func(i int) bool { return i%2 != 0 && i%3 == 0 }),
		"/runs/a?q=NUMBER+17":             {"170", "172", "174", "176", "178"},
		"/runs/a?q=dom_9&outcome=expired": {"9", "93", "99"},
		"/runs/a?q=nothing":               nil,
	}
	row := regexp.MustCompile(`<tr id="row-([0-9]+)"`)
	for path, want := range tests {
		var got []string
		for next := path; next != ""; {
			page := d.get(next)
			for _, match := range row.FindAllStringSubmatch(page, -1) {
				got = append(got, match[1])
			}
			next = link(page, "Next page")
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
	page := d.get("/runs/a?q=number+178")
	for _, want := range []string{
		"404: no domain number 178", "org_1 dom_178", "refused",
	} {
		if !strings.Contains(plain(page), want) {
			t.Errorf("row 178 is not told by %q: %s", want, plain(page))
		}
	}
	if want := `href="/domains?domain=dom_178&amp;organization=org_1&amp;tenant=default"`; !strings.Contains(page, want) {
		t.Errorf("no link %s in %s", want, page)
	}
	if got := do(d.pages, http.MethodGet, "/runs/a?from=x", nil).Code; got != http.StatusBadRequest {
		t.Errorf("from=x: %d, want 400", got)
	}
}

// TestOpenRowsArePaged checks that each open row of a large run is on one page, with the
// reason for which it is open.
func TestOpenRowsArePaged(t *testing.T) {
	d := newDesk(t)
	d.handIn("a", tasks.TypeVerify, domains(130))
	d.note("a", 7, "not_yet: no TXT record at h.example")
	var got []string
	first := d.get("/runs/a?outcome=open")
	for page := first; page != ""; {
		for _, match := range regexp.MustCompile(`<tr id="row-([0-9]+)"`).FindAllStringSubmatch(page, -1) {
			got = append(got, match[1])
		}
		path := link(page, "Next page")
		if page = ""; path != "" {
			page = d.get(path)
		}
	}
	if len(got) != 130 || got[0] != "0" || got[129] != "129" {
		t.Errorf("open rows: %v, want 0 to 129", got)
	}
	for _, want := range []string{
		"org_1 dom_7 not_yet: no TXT record at h.example; next check 2", "waiting for its turn",
		"1 not_yet: no TXT record at … 2", "129 their turn",
	} {
		if !strings.Contains(plain(first), want) {
			t.Errorf("the page does not say %q: %s", want, plain(first))
		}
	}
}

// TestForeignTextIsEscaped checks that markup in a row's cells, its reason, the label and the
// address is shown as text on both pages.
func TestForeignTextIsEscaped(t *testing.T) {
	d := newDesk(t)
	const script = `<script>alert(1)</script>`
	header, _, err := d.ledger.Create(t.Context(), ledger.NewRun{
		ID: "a", Kind: tasks.TypeVerify, Tenant: "default",
		Description: ledger.Description{Label: script, Caller: script, Format: "csv",
			Columns: []string{"organization_id", "discovery_domain_id"}},
	})
	mustNot(t, err)
	row, err := json.Marshal(map[string]string{"organization_id": script,
		"discovery_domain_id": `"><img src=x onerror=alert(1)>` + "\x1b[2J"})
	mustNot(t, err)
	stager, err := d.ledger.NewStager(t.Context(), header)
	mustNot(t, err)
	mustNot(t, stager.Add(t.Context(), row))
	mustNot(t, stager.Add(t.Context(), row))
	_, err = stager.Commit(t.Context())
	mustNot(t, err)
	d.settle("a", "refused", "the API says "+script, 0)
	d.note("a", 1, "not_yet: "+script)
	for _, path := range []string{"/runs", "/runs/a", "/runs/a?q=" + url.QueryEscape(`"><script>`),
		"/runs?tenant=" + url.QueryEscape(`"><script>`), "/runs/%3Cscript%3E"} {
		w := do(d.pages, http.MethodGet, path, nil)
		page := w.Body.String()
		if strings.Count(page, "<script") != 1 || strings.Contains(page, "<img") || strings.Contains(page, "\x1b") {
			t.Errorf("GET %s: something of a stranger's is live: %s", path, page)
		}
		if policy := w.Header().Get("Content-Security-Policy"); strings.Contains(policy, "unsafe") ||
			!strings.Contains(policy, "script-src 'self'") {
			t.Errorf("GET %s: policy %q", path, policy)
		}
		if strings.Contains(page, " style=") || regexp.MustCompile(` on[a-z]+="`).MatchString(page) {
			t.Errorf("GET %s: inline style or script, which the policy forbids", path)
		}
	}
}

// TestDownload checks that the file equals the output of "enqueue runs failed".
func TestDownload(t *testing.T) {
	d := newDesk(t)
	run := d.handIn("a", tasks.TypeVerify, domains(40))
	d.settle("a", "refused", "=404: no such domain", 1, 5, 9)
	d.settle("a", "done", "", 2)
	for path, asJSON := range map[string]bool{"/runs/a/failed": false, "/runs/a/failed?format=csv": false,
		"/runs/a/failed?format=jsonl": true} {
		var want bytes.Buffer
		_, err := results.ExportFailed(t.Context(), d.ledger, run, results.FailedOptions{JSON: asJSON}, &want)
		mustNot(t, err)
		w := do(d.shown, http.MethodGet, path, nil)
		if w.Code != http.StatusOK || w.Body.String() != want.String() {
			t.Errorf("GET %s: %d %q, want %q", path, w.Code, w.Body, want.String())
		}
		name := map[bool]string{false: "a-failed.csv", true: "a-failed.jsonl"}[asJSON]
		if got := w.Header().Get("Content-Disposition"); got != `attachment; filename="`+name+`"` {
			t.Errorf("GET %s: disposition %q", path, got)
		}
	}
	if code := do(d.shown, http.MethodGet, "/runs/a/failed?format=exe", nil).Code; code != http.StatusBadRequest {
		t.Errorf("format=exe: %d, want 400", code)
	}
}

// TestInterruptedDownload checks that the connection is closed if rows cannot be read any
// more.
func TestInterruptedDownload(t *testing.T) {
	d := newDesk(t)
	d.handIn("a", tasks.TypeVerify, domains(5))
	d.settle("a", "refused", "no", 1, 2)
	mustNot(t, d.rdb.Set(t.Context(), redistest.Keys(t, "*:chunks")[0], "not a hash", 0).Err())
	server := httptest.NewServer(d.pages)
	defer server.Close()
	resp, err := server.Client().Get(server.URL + "/runs/a/failed")
	if err == nil {
		_, err = io.ReadAll(resp.Body)
		if closed := resp.Body.Close(); closed != nil {
			t.Error(closed)
		}
		if err == nil && resp.StatusCode == http.StatusOK {
			t.Error("the download ended as if it were whole")
		}
	}
}

// TestAttention checks that problems of a tenant are shown above its runs.
func TestAttention(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	ctx := t.Context()
	_, _, err := d.taker.BeginPending(ctx, "", ledger.NewRun{ID: "a", Tenant: "default"})
	mustNot(t, err)
	limiter := pace.New(pace.Config{Redis: d.rdb, Tenant: "default",
		Limit: pace.Limit{Rate: pace.Rate{Count: 10, Per: time.Second}, Burst: 10}})
	mustNot(t, limiter.Block(ctx, "verify", "403: missing scope update:domains", "fix it"))
	limiter.Answered(ctx, "verify", http.StatusTooManyRequests, nil, 120*time.Second)
	store := sweep.NewStore(d.rdb, "default")
	ticks, err := store.Ticks(ctx)
	mustNot(t, err)
	ticks.Tick, ticks.Skipped = 1_900_000_000,
		sweep.SkippedTick{Tick: 1_900_000_000, Why: "the last sweep is still under way", InRow: 3}
	ok, err := store.SetTicks(ctx, &ticks)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	_, err = asynq.NewClientFromRedisClient(d.rdb).Enqueue(asynq.NewTask("domain:update", nil),
		asynq.Queue("default.rows"))
	mustNot(t, err)
	mustNot(t, asynq.NewInspectorFromRedisClient(d.rdb).PauseQueue("default.rows"))
	d.serve()
	page := plain(d.get("/"))
	for _, want := range []string{
		"1 worker serves 1 tenant; 1 blocked. 4 matters need attention.",
		"The queue default.rows is paused since 20", "Resume it",
		": 403: missing scope update:domains", "The operation verify is blocked since 20",
		"has asked this tenant to pause (429) until",
		"A sweep was skipped: the tick of 2030-03-17 17:46:40 UTC : the last sweep is still under way (3 in a row)",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q: %s", want, page)
		}
	}
	_, err = limiter.Stop(ctx, "alice", "wrong file")
	mustNot(t, err)
	for _, path := range []string{"/", "/runs/a", "/tenants"} {
		act := "enqueue tenant start default"
		if path == "/" {
			act = "Start it"
		}
		if page := plain(d.get(path)); !strings.Contains(page, "stopped by alice at ") || !strings.Contains(page, act) {
			t.Errorf("%s does not say who stopped the tenant: %s", path, page)
		}
	}
	ledgertest.Submit(t, d.ledger, ledger.NewRun{Tenant: "acme", ID: "theirs", Kind: "domain:update"}, "{}")
	if other := plain(d.get("/runs?tenant=acme")); strings.Contains(other, "blocked") {
		t.Errorf("of another tenant: %s", other)
	}
}

// TestActions checks that each action does the same as its command, reports the result and is
// logged.
func TestActions(t *testing.T) {
	t.Parallel()
	t.Run("pause and resume", func(t *testing.T) {
		d := newDesk(t)
		d.handIn("a", tasks.TypeVerify, domains(3))
		page, at := d.post("/runs/a/pause", url.Values{})
		if !d.run("a").Paused || at != "/runs/a" ||
			!strings.Contains(page, "run a: paused; to continue: enqueue runs resume a") {
			t.Errorf("paused %v, at %s: %s", d.run("a").Paused, at, page)
		}
		page, _ = d.post("/runs/a/resume", url.Values{})
		if r := d.run("a"); r.Paused || !strings.Contains(page, "run a: resumed; open rows: 3") {
			t.Errorf("paused %v: %s", r.Paused, page)
		}
		if log := d.log.String(); !strings.Contains(log, "action=resume") || !strings.Contains(log, `of="run default/a"`) {
			t.Errorf("log: %s", log)
		}
	})
	t.Run("cancel", func(t *testing.T) {
		d := newDesk(t)
		d.handIn("a", tasks.TypeVerify, domains(3))
		if page := plain(d.get("/runs/a")); !strings.Contains(page, "3 rows are open. Rows that have not started") {
			t.Errorf("the question does not have the number of rows: %s", page)
		}
		page, _ := d.post("/runs/a/cancel", url.Values{"reason": {"wrong file"}})
		if shown := plain(d.get("/activity")); !strings.Contains(shown, "rows that were open: 3; wrong file") {
			t.Errorf("the activity does not have the reason: %s", shown)
		}
		if r := d.run("a"); !r.Ended() || r.Counts["cancelled"] != 3 ||
			!strings.Contains(page, "run a: cancelled; rows that were open: 3") {
			t.Errorf("%+v: %s", r, page)
		}
		page, _ = d.post("/runs/a/pause", url.Values{})
		if !strings.Contains(page, "Failed, possibly in part: ") || !strings.Contains(page, "has ended") {
			t.Errorf("to pause what has ended: %s", page)
		}
	})
	t.Run("retry", func(t *testing.T) {
		d := newDesk(t)
		d.handIn("a", tasks.TypeVerify, domains(4))
		d.settle("a", "refused", "no", 0, 1)
		d.settle("a", "expired", "no", 2, 3)
		page, _ := d.post("/runs/a/retry", url.Values{})
		if len(d.run("a").Children) != 0 || !strings.Contains(page, "nothing is chosen") {
			t.Errorf("without an outcome: %s", page)
		}
		page, at := d.post("/runs/a/retry", url.Values{"outcome": {"expired"}})
		children := d.run("a").Children
		if len(children) != 1 || at != "/runs/"+string(children[0].ID) ||
			!strings.Contains(page, "2 rows of run a were submitted again as this run.") {
			t.Fatalf("children %v, at %s: %s", children, at, page)
		}
		if r := d.run(string(children[0].ID)); r.Total() != 2 || r.Parent != "a" || !strings.Contains(page, "Retry of a ") {
			t.Errorf("child %+v: %s", r, page)
		}
		page, at = d.post("/runs/a/retry", url.Values{"outcome": {"expired"}})
		if len(d.run("a").Children) != 1 || at != "/runs/"+string(children[0].ID) ||
			!strings.Contains(page, string("follow it to its end: enqueue runs follow "+children[0].ID)) {
			t.Errorf("a second retry: %s", page)
		}
		if page := plain(d.get("/runs/a")); !strings.Contains(page,
			string("Retried by "+children[0].ID+" (open; none settled)")) {
			t.Errorf("the parent does not name its child: %s", page)
		}
	})
	t.Run("stop and start of a tenant", func(t *testing.T) {
		d := newDesk(t)
		d.handIn("a", tasks.TypeVerify, domains(3))
		limiter := pace.New(pace.Config{Redis: d.rdb, Tenant: "default"})
		page, at := d.post("/tenants/stop", url.Values{"tenant": {"default"}, "reason": {" wrong file "}})
		state, err := limiter.State(t.Context())
		if err != nil || state.Stopped == nil || state.Stopped.Reason != "wrong file" || at != "/tenants" ||
			!strings.Contains(page, "The tenant is stopped by anybody at ") {
			t.Errorf("%+v, %v, at %s: %s", state.Stopped, err, at, page)
		}
		if !strings.Contains(page, "Start default") || strings.Contains(page, "Stop default") {
			t.Errorf("the page offers no start, or a second stop: %s", page)
		}
		page, _ = d.post("/tenants/start", url.Values{"tenant": {"default"}})
		if state, err = limiter.State(t.Context()); err != nil || state.Stopped != nil ||
			!strings.Contains(page, "Tenant default: started, and") || !strings.Contains(page, "Stop default") {
			t.Errorf("%+v, %v: %s", state.Stopped, err, page)
		}
		if page, _ = d.post("/tenants/start", url.Values{"tenant": {"default"}}); !strings.Contains(page,
			"Tenant default: was neither stopped, paused nor blocked.") {
			t.Errorf("a second start: %s", page)
		}
		if page, _ = d.post("/tenants/stop", url.Values{"tenant": {"No Tenant"}}); !strings.Contains(page, "Not done: ") {
			t.Errorf("no tenant: %s", page)
		}
	})
	t.Run("sweep", func(t *testing.T) {
		d := newDesk(t)
		for _, form := range []url.Values{{}, {"tenant": {"No Tenant"}}, {"tenant": {"default"}, "organization": {"a b"}}} {
			if page, _ := d.post("/sweeps", form); !strings.Contains(page, "Not done: ") {
				t.Errorf("%v: %s", form, page)
			}
		}
		page, at := d.post("/sweeps", url.Values{"tenant": {"default"}})
		if r := d.run(strings.TrimPrefix(at, "/runs/")); r.Kind != tasks.TypeRecheck || r.Scan == nil ||
			!strings.Contains(page, "The sweep has started as this run.") {
			t.Errorf("%+v: %s", r, page)
		}
		if page, _ = d.post("/sweeps", url.Values{"tenant": {"default"}}); !strings.Contains(page,
			"Failed, possibly in part: ") {
			t.Errorf("a second sweep: %s", page)
		}
	})
}

// TestActionsAreRefused checks that read-only pages, requests of other sites, large forms, and
// links change nothing.
func TestActionsAreRefused(t *testing.T) {
	d := newDesk(t)
	d.handIn("a", tasks.TypeVerify, domains(3))
	d.handIn("b", tasks.TypeVerify, domains(3))
	d.settle("b", "refused", "no", 0, 1, 2)
	before := redistest.Keys(t, "*")
	state := [2]ledger.Run{d.run("a"), d.run("b")}
	actions := map[string]url.Values{
		"/runs/a/pause": {}, "/runs/a/resume": {}, "/runs/a/cancel": {}, "/runs/b/retry": {"outcome": {"refused"}},
		"/sweeps":       {"tenant": {"default"}},
		"/clients/list": {"tenant": {"default"}, "client": {"client_1"}}, "/runs/b/everywhere": {"organizations": {"3"}},
		"/tenants/stop": {"tenant": {"default"}}, "/tenants/start": {"tenant": {"default"}},
	}
	for path, form := range actions {
		large := url.Values{"more": {strings.Repeat("x", 70_000)}}
		for name, attempt := range map[string]struct {
			w    *httptest.ResponseRecorder
			want int
		}{
			"read-only": {do(d.shown, http.MethodPost, path, form), http.StatusForbidden},
			"cross-site": {do(d.pages, http.MethodPost, path, form, header("Origin", "https://evil.example"),
				header("Sec-Fetch-Site", "cross-site")), http.StatusForbidden},
			"large":  {do(d.pages, http.MethodPost, path, large), http.StatusSeeOther},
			"by GET": {do(d.pages, http.MethodGet, path, nil), http.StatusMethodNotAllowed},
		} {
			if attempt.w.Code != attempt.want {
				t.Errorf("%s %s: %d, want %d", path, name, attempt.w.Code, attempt.want)
			}
		}
	}
	after := slices.DeleteFunc(redistest.Keys(t, "*"), func(key string) bool { return strings.Contains(key, "notice") })
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("keys (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(state, [2]ledger.Run{d.run("a"), d.run("b")}, cmpopts.IgnoreUnexported(ledger.Run{})); diff != "" {
		t.Errorf("runs (-before +after):\n%s", diff)
	}
}

// TestANoticeCannotBeForged checks that no parameter of an address adds a notice to a page.
func TestANoticeCannotBeForged(t *testing.T) {
	d := newDesk(t)
	if page := plain(d.get("/runs?notice=" + url.QueryEscape("All runs were stopped"))); strings.Contains(page,
		"were stopped") {
		t.Errorf("the page says what its address does: %s", page)
	}
}

func TestUnknownRuns(t *testing.T) {
	d := newDesk(t)
	for _, path := range []string{"/runs/none", "/runs/none/failed", "/runs/a%20b", "/runs/..%2Fx",
		"/runs/" + strings.Repeat("x", 2000)} {
		w := do(d.pages, http.MethodGet, path, nil)
		if w.Code != http.StatusNotFound || !strings.Contains(plain(w.Body.String()), "There is no run") ||
			len(w.Body.String()) > 4000 {
			t.Errorf("GET %s: %d: %s", path, w.Code, w.Body)
		}
	}
	for action := range map[string]bool{"pause": true, "resume": true, "cancel": true, "retry": true, "check": true} {
		w := do(d.pages, http.MethodPost, "/runs/none/"+action, url.Values{"outcome": {"failed"}})
		page := do(d.pages, http.MethodGet, w.Header().Get("Location"), nil)
		if w.Code != http.StatusSeeOther || page.Code != http.StatusNotFound ||
			!strings.Contains(plain(page.Body.String()), "Not done: There is no run none") {
			t.Errorf("POST %s: %d, then %d: %s", action, w.Code, page.Code, plain(page.Body.String()))
		}
	}
}

// away is a Redis that does not answer.
type away struct{}

func (away) DialHook(next redis.DialHook) redis.DialHook { return next }
func (away) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(context.Context, redis.Cmder) error { return io.ErrUnexpectedEOF }
}

func (away) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(_ context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			cmd.SetErr(io.ErrUnexpectedEOF)
		}
		return io.ErrUnexpectedEOF
	}
}

func TestPagesWithoutRedis(t *testing.T) {
	d := newDesk(t)
	d.handIn("a", tasks.TypeVerify, domains(3))
	d.rdb.AddHook(away{})
	for _, path := range []string{"/runs", "/runs/a", "/runs/a/failed"} {
		w := do(d.pages, http.MethodGet, path, nil)
		if w.Code != http.StatusServiceUnavailable || !strings.Contains(plain(w.Body.String()), "Reading Redis failed: ") ||
			!strings.Contains(w.Body.String(), "</html>") {
			t.Errorf("GET %s: %d: %s", path, w.Code, w.Body)
		}
	}
	w := do(d.pages, http.MethodPost, "/runs/a/cancel", url.Values{})
	if at := w.Header().Get("Location"); w.Code != http.StatusSeeOther || at != "/runs/a" {
		t.Errorf("POST: %d to %s, want 303 to the run's page, which says why", w.Code, at)
	}
}

// TestSlowAndDamagedPages: a page that is not read in time, or whose data is damaged, does not send
// people to a Redis that runs.
func TestSlowAndDamagedPages(t *testing.T) {
	for want, cause := range map[string]error{
		"This page was not read within 10s (": context.DeadlineExceeded, "Stored data is damaged: ": ledger.ErrDamaged,
	} {
		d := newDesk(t)
		d.handIn("a", tasks.TypeVerify, domains(3))
		d.rdb.AddHook(redistest.Around(func(_ context.Context, run func() error, cmds ...redis.Cmder) error {
			if !slices.ContainsFunc(cmds, func(c redis.Cmder) bool { return strings.Contains(fmt.Sprint(c.Args()), ":run:") }) {
				return run()
			}
			for _, cmd := range cmds {
				cmd.SetErr(cause)
			}
			return cause
		}))
		w := do(d.pages, http.MethodGet, "/runs/a", nil)
		page := plain(w.Body.String())
		if w.Code != http.StatusServiceUnavailable || !strings.Contains(page, want) || strings.Contains(page, "Redis runs") {
			t.Errorf("%v: %d: %s", cause, w.Code, page)
		}
	}
}

// TestLiveRequestsReadLittle checks that the script, which requests the page every two
// seconds, does not cause a search of all rows each time.
func TestLiveRequestsReadLittle(t *testing.T) {
	d := newDesk(t)
	d.handIn("a", tasks.TypeVerify, domains(3))
	d.settle("a", "refused", "no such domain", 1)
	const found = `<tr id="row-1"`
	if page := d.get("/runs/a?q=such"); !strings.Contains(page, found) {
		t.Fatalf("the row is not found: %s", page)
	}
	live := header("Orgops-Live", "1")
	if page := d.get("/runs/a?q=such", live); strings.Contains(page, `id="rows"`) ||
		!strings.Contains(page, `id="now"`) {
		t.Errorf("asked again, rows are searched through again, or how it stands is not told: %s", page)
	}
	if page := d.get("/runs/a", live); !strings.Contains(page, found) {
		t.Errorf("without a text the rows are kept up to date: %s", page)
	}

	// The failed rows are counted each time as long as they are few.
	const many = 1001
	d.handIn("many", tasks.TypeVerify, domains(many))
	for first := range many {
		if first%100 == 0 {
			var items []int64
			for item := first; item < min(first+100, many); item++ {
				items = append(items, int64(item))
			}
			d.settle("many", "refused", "no such domain", items...)
		}
	}
	const reasons = `id="failed-reasons"`
	for path, counted := range map[string]bool{"/runs/a": true, "/runs/many": false} {
		if !strings.Contains(d.get(path), "Failed rows by reason") {
			t.Errorf("%s has no failed rows by reason", path)
		}
		if page := d.get(path, live); strings.Contains(page, reasons) != counted {
			t.Errorf("%s, asked again: counts failed rows %t, want %t", path, !counted, counted)
		}
	}
}

// TestSearchForAnOutcomeIsBounded checks that no rows are searched for an outcome that no row
// has.
func TestSearchForAnOutcomeIsBounded(t *testing.T) {
	d := newDesk(t)
	d.handIn("a", tasks.TypeVerify, domains(60))
	d.settle("a", "expired", "no", 59)
	d.settle("a", "refused", "no", 1, 2, 3)
	reads := &rowsRead{}
	d.rdb.AddHook(reads)
	d.get("/runs/a?outcome=other")
	reasons := reads.results // the counts by reason need them on each page
	for path, rows := range map[string]int{"/runs/a?outcome=other": 0, "/runs/a?outcome=done": 0,
		"/runs/a?outcome=expired": 1, "/runs/a?outcome=refused": 3} {
		reads.results = -reasons
		page := d.get(path, header("Orgops-Live", "1"))
		if got := strings.Count(page, `<tr id="row-`); got != rows || (reads.results > 0) != (rows > 0) ||
			!strings.Contains(page, `id="rows"`) {
			t.Errorf("%s: %d rows, read %d times; want %d", path, got, reads.results, rows)
		}
	}
}

// rowsRead counts how often results were read.
type rowsRead struct{ results int }

func (r *rowsRead) DialHook(next redis.DialHook) redis.DialHook { return next }

func (r *rowsRead) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		r.count(cmd)
		return next(ctx, cmd)
	}
}

func (r *rowsRead) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			r.count(cmd)
		}
		return next(ctx, cmds)
	}
}

func (r *rowsRead) count(cmd redis.Cmder) {
	if slices.Contains(cmd.Args(), any(string(ledger.WithResult))) {
		r.results++
	}
}

// TestAPanicEndsNoWorker checks that an action which panics is reported as failed.
func TestAPanicEndsNoWorker(t *testing.T) {
	var log bytes.Buffer
	d := newDesk(t)
	// and no Intake
	d.pages = console.Pages(console.Config{Redis: d.rdb, Ledger: d.ledger, Unsigned: web.Operator,
		Logger: slog.New(slog.NewTextHandler(&log, nil))})
	page, _ := d.post("/sweeps", url.Values{"tenant": {"default"}})
	if !strings.Contains(page, "internal error") || !strings.Contains(log.String(), "operator action panicked") {
		t.Errorf("page %s, log %s", page, log.String())
	}
}
