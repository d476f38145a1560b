package console_test

import (
	"compress/gzip"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"orgops/internal/console"
	"orgops/internal/ledger"
	"orgops/internal/ledgertest"
	"orgops/internal/web"
	"orgops/tasks"
)

// TestStaticFiles checks that pages name files by their content, that browsers may store these, and
// that no other name exists.
func TestStaticFiles(t *testing.T) {
	p := newPages(t)
	page := text(t, p.do(http.MethodGet, "/domains"))
	monitor := text(t, p.do(http.MethodGet, "/monitor/"))
	var paths []string
	for _, match := range regexp.MustCompile(`"(/static/[^"]+)"`).FindAllStringSubmatch(page+monitor, -1) {
		paths = append(paths, match[1])
	}
	if len(paths) != 5 {
		t.Errorf("the pages name %q, want five files", paths)
	}
	for _, path := range paths {
		resp := p.do(http.MethodGet, path)
		if cached := resp.Header.Get("Cache-Control"); resp.StatusCode != http.StatusOK || cached !=
			"private, max-age=31536000, immutable" || strings.HasPrefix(resp.Header.Get("Content-Type"), "text/plain") {
			t.Errorf("GET %s: %d, %s, %s", path, resp.StatusCode, cached, resp.Header.Get("Content-Type"))
		}
	}
	for _, path := range []string{"/static/ops.css", "/static/ops.css?000000000000", "/static/none"} {
		if resp := p.do(http.MethodGet, path); resp.StatusCode != http.StatusNotFound {
			t.Errorf("GET %s: %d, want 404", path, resp.StatusCode)
		}
	}
}

// TestCompression checks that pages, static files, files of asynqmon and downloads are compressed
// for clients that accept it, and whole.
func TestCompression(t *testing.T) {
	d := newDesk(t)
	d.handIn("a", tasks.TypeVerify, domains(100))
	for i := range int64(100) {
		d.settle("a", "refused", "404: no such domain", i)
	}
	monitor := regexp.MustCompile(`/monitor/static/js/main[^"]+`).FindString(d.get("/monitor/"))
	style := regexp.MustCompile(`/static/ops\.css[^"]+`).FindString(d.get("/runs"))
	for _, path := range []string{"/runs/a?outcome=refused", style, monitor, "/runs/a/failed"} {
		plain := do(d.pages, http.MethodGet, path, nil)
		packed := do(d.pages, http.MethodGet, path, nil, header("Accept-Encoding", "gzip"))
		if plain.Header().Get("Content-Encoding") != "" || packed.Header().Get("Content-Encoding") != "gzip" ||
			packed.Header().Get("Vary") != "Accept-Encoding" || packed.Body.Len() > plain.Body.Len()/2 {
			t.Fatalf("GET %s: %d bytes, and %d %v", path, plain.Body.Len(), packed.Body.Len(), packed.Header())
		}
		unpacked, err := gzip.NewReader(packed.Body)
		mustNot(t, err)
		got, err := io.ReadAll(unpacked)
		now := regexp.MustCompile(`data-now="\d+"`)
		if err != nil || now.ReplaceAllString(string(got), "") != now.ReplaceAllString(plain.Body.String(), "") {
			t.Errorf("GET %s: %v, unpacked it differs", path, err)
		}
	}
}

// TestTimes checks that times have one form on a page, also in sentences, and are exact without the
// script.
func TestTimes(t *testing.T) {
	d := newDesk(t)
	d.handIn("a", tasks.TypeVerify, domains(3))
	d.note("a", 1, "not_yet: seen at 2030-03-17T17:46:40Z <b>")
	const want = `<time datetime="2030-03-17T17:46:40Z" data-exact>2030-03-17 17:46:40 UTC</time> &lt;b&gt;`
	page := d.get("/runs/a")
	if !strings.Contains(page, want) {
		t.Errorf("the time in a sentence is not marked: %s", page)
	}
	times := regexp.MustCompile(`<time datetime="([^"]+)"[^>]*>([^<]*)</time>`).FindAllStringSubmatch(page, -1)
	for _, one := range times {
		at, err := time.Parse(time.RFC3339, one[1])
		if err != nil || one[2] != at.Format(time.DateTime)+" UTC" {
			t.Errorf("time %q is shown as %q: %v", one[1], one[2], err)
		}
	}
	if len(times) < 3 {
		t.Errorf("times: %q", times)
	}
}

// TestNamesAreBrokenAtDots: a name in a reason is broken after its dots, and not inside _ss-.
func TestNamesAreBrokenAtDots(t *testing.T) {
	d := newDesk(t)
	d.handIn("a", tasks.TypeVerify, domains(2))
	d.note("a", 1, "not_yet: no TXT record at _ss-verification.org_1.acme.example <b>")
	const want = `at <span class="unbroken">_ss-verification.</span><wbr>org_1.<wbr>acme.<wbr>example &lt;b&gt;`
	if page := d.get("/runs/a"); !strings.Contains(page, want) {
		t.Errorf("the page lacks %s: %s", want, page)
	}
}

// TestNoticeOfAnotherWorker checks that a result is shown by another worker than that which acted,
// again when the page is reloaded, and to nobody else.
func TestNoticeOfAnotherWorker(t *testing.T) {
	d := newDesk(t)
	d.handIn("a", tasks.TypeVerify, domains(3))
	file, tokens := access(t, web.User{Name: "ada", Role: web.Operator, Tenants: []string{"*"}},
		web.User{Name: "bob", Role: web.Operator, Tenants: []string{"*"}})
	worker := func() http.Handler {
		return console.Pages(console.Config{Redis: d.rdb, Ledger: d.ledger, Intake: d.taker, Access: file,
			Logger: slog.New(slog.DiscardHandler), Proxy: web.Proxy{SignOut: "/oauth2/sign_out"}})
	}
	w := do(worker(), http.MethodPost, "/runs/a/pause", url.Values{}, basic(tokens["ada"]))
	at := w.Header().Get("Location")
	const told = "run a: paused"
	for range 2 {
		page := do(worker(), http.MethodGet, at, nil, basic(tokens["ada"])).Body.String()
		if !strings.Contains(plain(page), told) {
			t.Errorf("another worker says nothing at %s: %s", at, plain(page))
		}
		for _, want := range []string{"ada, operator", `<a href="/oauth2/sign_out">Sign out</a>`} {
			if !strings.Contains(page, want) {
				t.Errorf("the page lacks %s", want)
			}
		}
	}
	page := plain(do(worker(), http.MethodGet, at, nil, basic(tokens["bob"])).Body.String())
	if strings.Contains(page, told) {
		t.Errorf("another user sees the result: %s", page)
	}
}

// TestChosenRows retries a chosen row, and has another checked, while others of the run are open.
func TestChosenRows(t *testing.T) {
	d := newDesk(t)
	d.handIn("a", tasks.TypeVerify, domains(5))
	d.settle("a", "refused", "no", 0, 1)
	d.settle("a", "done", "", 2)
	d.note("a", 3, "not_yet: no")
	for path, want := range map[string]string{
		"/runs/a": "0 1 3 4", "/runs/a?outcome=all": "0 1 2 3 4", "/runs/a?outcome=open": "3 4",
		"/runs/a?outcome=all+failed": "0 1", "/runs/a?outcome=done": "2", "/runs/a?outcome=refused": "0 1",
		"/runs/a?outcome=all&q=dom_3": "3", "/runs/a?outcome=none": "", "/runs/a?from=1": "1 3 4",
	} {
		var items []string
		for _, match := range regexp.MustCompile(`<tr id="row-([0-9]+)"`).FindAllStringSubmatch(d.get(path), -1) {
			items = append(items, match[1])
		}
		if got := strings.Join(items, " "); got != want {
			t.Errorf("%s: rows %q, want %q", path, got, want)
		}
	}
	page := d.get("/runs/a")
	var offered []string
	for _, match := range regexp.MustCompile(`name="row" value="([0-9]+)"`).FindAllStringSubmatch(page, -1) {
		offered = append(offered, match[1])
	}
	if got := strings.Join(offered, " "); got != "0 1 3" || !strings.Contains(plain(page), "2 refused: no") {
		t.Errorf("rows %q can be chosen, want 0 1 3: %s", got, plain(page))
	}
	if page, at := d.post("/runs/a/check", url.Values{"row": {"3", "4"}}); at != "/runs/a" ||
		!strings.Contains(page, "1 chosen row is checked now") {
		t.Errorf("check, at %s: %s", at, page)
	}
	if page, _ := d.post("/runs/a/check", url.Values{"row": {"-1"}}); !strings.Contains(page, "invalid row") {
		t.Errorf("check of a row -1: %s", page)
	}
	page, at := d.post("/runs/a/retry", url.Values{"row": {"1"}})
	if children := d.run("a").Children; len(children) != 1 || at != "/runs/"+string(children[0].ID) ||
		d.run(string(children[0].ID)).Total() != 1 {
		t.Errorf("children %v, at %s: %s", children, at, page)
	}
	if page, _ := d.post("/runs/a/retry", url.Values{"row": {"1"}}); !strings.Contains(page, "was retried before") {
		t.Errorf("the same row once more: %s", page)
	}
}

// TestCommandsAreCode: a command in a remedy is code with a button that copies it, and ends where
// the sentence goes on.
func TestCommandsAreCode(t *testing.T) {
	d := newDesk(t)
	d.handIn("a", tasks.TypeVerify, domains(2))
	mustNot(t, ledgertest.Control(t.Context(), d.ledger, (*ledger.Ledger).Pause, "a"))
	d.note("a", 1, "not_yet: said by the zone: enqueue runs delete a")
	page := joined(d.get("/runs/a"))
	const want = `to continue: <span class="command"><code>enqueue runs resume a</code>` +
		`<button type="button" data-copy aria-label="Copy enqueue runs resume a" hidden>Copy</button></span>`
	if !strings.Contains(page, want) || strings.Contains(page, "Copy enqueue runs delete") {
		t.Errorf("the page lacks %s: %s", want, page)
	}
	for text, want := range map[string][]string{
		"start it: enqueue tenant start acme, or Try now":              {"enqueue tenant start acme"},
		"enqueue runs list --tenant acme names them, with the reasons": {"enqueue runs list --tenant acme"},
		"`enqueue domains verify --tenant a --pending` reads those, `enqueue domains sweep --tenant a` those": {
			"enqueue domains verify --tenant a --pending", "enqueue domains sweep --tenant a"},
		"go on (enqueue runs cancel RUN), or":                 {"enqueue runs cancel RUN"},
		"and enqueue runs show and enqueue domains show read": {"enqueue runs show", "enqueue domains show"},
		"by: enqueue tenant deliver acme crm --given-up.":     {"enqueue tenant deliver acme crm --given-up"},
		"test it: worker doctor":                              {"worker doctor"},
		"events are enqueued":                                 nil,
	} {
		var have []string
		shown := joined(string(console.Advised(text)))
		for _, command := range regexp.MustCompile(`<code>([^<]*)</code>`).FindAllStringSubmatch(shown, -1) {
			have = append(have, command[1])
		}
		if !slices.Equal(have, want) {
			t.Errorf("%s: %q, want %q", text, have, want)
		}
	}
}
