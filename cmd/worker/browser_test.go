//go:build browser

package main

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"orgops/internal/ledger"
	"orgops/internal/queues"
	"orgops/internal/redistest"
	"orgops/internal/sandbox"
	"orgops/internal/web"
	"orgops/tasks"
)

// markup is an injection: it changes the page's title if the browser executes it.
const markup = `<img src=x onerror="document.title='owned'"><script>document.title='owned'</script>`

// operated is a worker with its pages, and a run of each sort.
type operated struct {
	desk

	base   string
	token  string // of an operator
	sample sandbox.Sample
}

// Runs of an operated worker.
const (
	sampleRun = "nightly-domains" // has ended; some of its rows failed
	slowRun   = "left-customers"  // is under way for a quarter of an hour
	markupRun = "markup"          // has markup in its label
)

// operate starts a worker with its pages, of a tenant that allows few requests, and
// hands runs in to it.
func operate(t *testing.T) operated {
	t.Helper()
	chromium(t)
	box := startBox(t, sandbox.Options{})
	token, entry, err := web.NewEntry(web.User{Name: "ada", Role: web.Operator, Tenants: []string{"*"}})
	if err != nil {
		t.Fatal(err)
	}
	access := filepath.Join(t.TempDir(), "access.yaml")
	if err := os.WriteFile(access, []byte(entry), 0o600); err != nil {
		t.Fatal(err)
	}
	settings := pointedAt(box, redistest.URL(t), map[string]string{
		"ORGOPS_HTTP_ADDR": "127.0.0.1:0", "ORGOPS_ACCESS": access, "ORGOPS_LOG_FORMAT": "json",
		"ORGOPS_RATE": "20/s", "ORGOPS_BURST": "20", "ORGOPS_RESERVE": "0", "ORGOPS_MAX_CLIENTS_PER_REQUEST": "1",
	})
	p := begin(t, settings)
	at, _ := p.says("listening", map[string]string{"for": "http-addr"})["url"].(string)
	o := operated{newDesk(t), strings.TrimSuffix(at, "/"), token, box.Seed()}
	o.handIn(ledger.NewRun{ID: sampleRun, Description: ledger.Description{Label: "from the CRM", GiveUp: sandboxGiveUp}},
		tasks.TypeVerify, o.sample.Domains)
	o.ended(sampleRun)
	o.handIn(ledger.NewRun{ID: slowRun, Description: ledger.Description{Label: "clients of customers who left"}},
		tasks.TypeRemove, box.SeedClients(20_000))
	await(t, "the first rows of "+slowRun, func() bool { return o.run(slowRun).Settled() > 0 })
	return o
}

func runPath(id string) string { return "/runs/" + url.PathEscape(id) }

// TestBrowser checks the pages of a real worker in a real browser. It is a single test with
// many subtests, since the browser and the worker take long to start.
func TestBrowser(t *testing.T) {
	o := operate(t)
	b := openBrowser(t, o.base)
	axe := axeCore(t)

	t.Run("sign-in", func(t *testing.T) { o.signsIn(t, b) })
	t.Run("pages", func(t *testing.T) { o.looksWell(t, b, axe) })
	t.Run("copy", func(t *testing.T) { o.copies(t, b) })
	t.Run("suggestions", func(t *testing.T) { o.suggests(t, b, axe) })
	t.Run("live", func(t *testing.T) { o.isLive(t, b) })
	t.Run("hold", func(t *testing.T) { o.holdsStill(t, b) })
	t.Run("markup", func(t *testing.T) { o.staysText(t, b) })
	t.Run("keyboard", func(t *testing.T) { o.keyboard(t, b) })
	t.Run("reasons", func(t *testing.T) { o.reasonsAreSeen(t, b) })
	t.Run("filter", func(t *testing.T) { o.filters(t, b) })
	t.Run("queues", func(t *testing.T) { o.queues(t, b, axe) })
	t.Run("customer", func(t *testing.T) { o.showsACustomer(t, b, axe) })
	t.Run("actions", func(t *testing.T) { o.actions(t, b) })
}

// signsIn shows that nothing is served without the token, and has the browser keep it for the other
// tests.
func (o operated) signsIn(t *testing.T, b *browser) {
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, o.base+"/runs", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a token: %d, want 401", resp.StatusCode)
	}
	signed := *b
	signed.base = strings.Replace(o.base, "http://", "http://any:"+o.token+"@", 1)
	tab := signed.tab(t)
	tab.open("/runs", "main h1")
	if header := tab.text("header"); !strings.Contains(header, "ada, operator") {
		t.Errorf("the header has no user: %q", header)
	}
}

// looksWell checks each page in desktop and mobile size, in the light and the dark scheme: the
// page fits, it requests nothing from other hosts, it logs nothing to the console, and
// axe-core finds no violation.
func (o operated) looksWell(t *testing.T, b *browser, axe string) {
	pages := []struct{ name, path string }{
		{"overview", "/"},
		{"runs", "/runs"},
		{"run-ended", runPath(sampleRun)},
		{"run", runPath(slowRun)},
		{"domains", "/domains"},
		{"domain", o.lookup()},
		{"tenants", "/tenants"},
		{"runs-of-a-tenant", "/runs?tenant=default"},
		{"error", "/runs/none"},
		{"activity", "/activity"},
		{"search", "/search?q=example"},
		{"selection", "/selection?action=cancel&all=1"},
	}
	for _, p := range pages {
		t.Run(p.name, func(t *testing.T) {
			tab := b.tab(t)
			if p.name == "error" {
				tab.quietly = []string{"status of 404"}
			}
			for _, l := range []look{{1280, 800, "light"}, {1280, 800, "dark"}, {390, 844, "light"}, {390, 844, "dark"}} {
				where := fmt.Sprintf("%s at %s", p.path, l)
				tab.as(l)
				tab.open(p.path, "main h1")
				tab.fits(where)
				tab.roomy(where)
				tab.accessible(where, axe, "document")
				tab.picture(p.name + "-" + l.String())
			}
			if icon := evaluate[int](tab, `fetch(document.querySelector("link[rel=icon]").href).then((a) => a.status)`); icon !=
				http.StatusOK {
				t.Errorf("the icon: %d, want 200", icon)
			}
		})
	}
}

// lookup returns the path of the page of a sample domain.
func (o operated) lookup() string {
	d := o.sample.Swept[0]
	return "/domains?" + url.Values{"tenant": {tasks.DefaultTenant}, "organization": {d.Organization},
		"domain": {d.Domain}}.Encode()
}

// copies presses the buttons that copy a record, with a clipboard and with one that refuses.
func (o operated) copies(t *testing.T, b *browser) {
	tab := b.tab(t)
	tab.open(o.lookup(), "#publish")
	const button, value = `document.querySelector("[data-copy=publish-value]")`, `document.getElementById("publish-value").innerText`
	for _, clipboard := range []struct{ write, says, holds string }{
		{"(text) => { window.copied = text; return Promise.resolve(); }", "Copied", "window.copied"},
		{"() => Promise.reject(new Error())", "Not copied: the text is selected", "getSelection().toString()"},
	} {
		evaluate[bool](tab, `Object.defineProperty(navigator, "clipboard", {configurable: true, value: {writeText: `+
			clipboard.write+`}}) === navigator`)
		tab.do("focus the button", chromedp.Evaluate[chromedp.Void](button+".focus()"))
		tab.press(kb.Enter)
		tab.until("it says "+clipboard.says, `document.getElementById("live").innerText.startsWith(`+quoted(clipboard.says)+`)`)
		if got, want := evaluate[string](tab, clipboard.holds), evaluate[string](tab, value); got != want || want == "" {
			t.Errorf("%s: %q, want %q", clipboard.says, got, want)
		}
		tab.until("the button is as before", button+`.innerText === "Copy"`)
	}
}

// isLive checks that a run's bar grows without a reload of the page.
func (o operated) isLive(t *testing.T, b *browser) {
	tab := b.tab(t)
	for _, path := range []string{"/runs", runPath(slowRun)} {
		tab.open(path, ".bar")
		bar := fmt.Sprintf(`document.querySelector('.bar[aria-label*="of run %s:"] .open').width.baseVal.value`, slowRun)
		open, loads := evaluate[float64](tab, bar), tab.loaded()
		tab.until("the bar grows", fmt.Sprintf("%s < %f", bar, open))
		if tab.loaded() != loads {
			t.Errorf("%s was loaded again", path)
		}
	}
}

// staysText has markup in a run's label and in the address of a page.
func (o operated) staysText(t *testing.T, b *browser) {
	o.handIn(ledger.NewRun{ID: markupRun, Description: ledger.Description{Label: markup}}, tasks.TypeRemove,
		[]byte("organization_id,client_id\norg_0000000000000000,c\n"))
	tab := b.tab(t)
	tab.quietly = []string{"status of 40"} // pages that do not exist
	for _, path := range []string{
		"/runs", runPath(markupRun), runPath(sampleRun) + "?q=" + url.QueryEscape(markup),
		"/runs?tenant=" + url.QueryEscape(markup),
		"/runs/" + url.PathEscape("x"+markup),
		"/domains?" + url.Values{"tenant": {markup}, "organization": {markup}, "domain": {markup}}.Encode(),
	} {
		tab.open(path, "main")
		if title := evaluate[string](tab, "document.title"); strings.Contains(title, "owned") {
			t.Errorf("%s: a script of a stranger's ran", path)
		}
		if n := evaluate[int](tab, `document.querySelectorAll("main img, main script").length`); n != 0 {
			t.Errorf("%s: %d elements that a stranger wrote", path, n)
		}
	}
	tab.open("/runs", "main")
	if seen := tab.text("main"); !strings.Contains(seen, "onerror") {
		t.Errorf("the label is not to be read on %.500q", seen)
	}
}

// keyboard navigates with Tab alone: first to the content, then to the pages.
func (o operated) keyboard(t *testing.T, b *browser) {
	tab := b.tab(t)
	tab.open("/runs", "main h1")
	const focused = "document.activeElement.innerText"
	var seen []string
	for range 7 {
		tab.press(kb.Tab)
		seen = append(seen, strings.TrimSpace(evaluate[string](tab, focused)))
		if !evaluate[bool](tab, "document.activeElement.getBoundingClientRect().left >= 0") {
			t.Errorf("%q has the focus, and is not to be seen", seen[len(seen)-1])
		}
	}
	if got := strings.Join(seen, ", "); got != "Skip to content, Overview, Runs, Domains, Tenants, Activity, Queues" {
		t.Errorf("by Tab one comes to %s", got)
	}
	tab.open("/runs", "main h1")
	tab.press(kb.Tab, kb.Enter)
	tab.until("the content has the focus", `document.activeElement.id === "content"`)
}

// suggests types into the search, which shows its hits below itself until the focus leaves it.
func (o operated) suggests(t *testing.T, b *browser, axe string) {
	tab := b.tab(t)
	for _, l := range []look{{1280, 800, "light"}, {390, 844, "dark"}} {
		tab.as(l)
		tab.open("/runs", "main h1")
		typeSearch(tab, "nig")
		tab.until("the run that begins with it", `document.querySelector("#hits a[href^='/runs/nightly-']") !== null`)
		tab.fits("the suggestions")
		tab.accessible("the suggestions", axe, "document")
		tab.picture("suggestions-" + l.String())
		tab.press(kb.Tab, kb.Tab)
		tab.until("a suggestion has the focus", `document.activeElement.matches("#hits a")`)
		tab.press(kb.Escape)
		tab.until("no suggestions", `document.getElementById("hits").hidden`)
	}
	tab.open("/runs", "main h1")
	typeSearch(tab, slowRun)
	tab.until("the run of this id", fmt.Sprintf(`document.querySelector("#hits a")?.href.includes(%q)`, runPath(slowRun)))
}

// typeSearch types into the search.
func typeSearch(tab *tab, text string) {
	tab.do("focus the search", chromedp.Focus(chromedp.CSS("#search")))
	tab.press(strings.Split(text, "")...)
}

// reasonsAreSeen checks that the run's page shows the reasons of failed sample rows.
func (o operated) reasonsAreSeen(t *testing.T, b *browser) {
	tab := b.tab(t)
	tab.open(runPath(sampleRun), "#row-list tr")
	rows := evaluate[int](tab, `document.querySelectorAll("#row-list tr").length`)
	why := evaluate[int](tab,
		`[...document.querySelectorAll("#row-list .why")].filter((e) => e.innerText.trim().length > 10).length`)
	if rows == 0 || why != rows {
		t.Errorf("%d rows that did not settle well, %d of them with a reason", rows, why)
	}
}

// filters selects rows by their outcome.
func (o operated) filters(t *testing.T, b *browser) {
	tab := b.tab(t)
	tab.open(runPath(sampleRun), "#outcome")
	outcome := evaluate[string](tab, `document.querySelector("#outcome").options[4].value`)
	tab.do("choose "+outcome, chromedp.SetValue(chromedp.CSS("#outcome"), outcome),
		chromedp.Submit(chromedp.CSS("#outcome")))
	tab.until("the page of "+outcome,
		fmt.Sprintf(
			"new URLSearchParams(location.search).get('outcome') === %q && document.querySelector('#rows')", outcome))
	got := evaluate[[]string](tab, `[...document.querySelectorAll("#row-list .badge")].map((e) => e.innerText)`)
	for _, one := range got {
		if one != outcome {
			t.Errorf("a row is %s where those that are %s are asked for", one, outcome)
		}
	}
	if len(got) == 0 {
		t.Errorf("no rows that are %s", outcome)
	}
}

// queues opens asynqmon by its link, and the tasks in progress.
func (o operated) queues(t *testing.T, b *browser, axe string) {
	tab := b.tab(t)
	tab.open("/runs", "main h1")
	tab.do("go to the queues", chromedp.Click(chromedp.CSS(`nav a[href="/monitor/"]`)))
	tab.until("the queues",
		`location.pathname.startsWith("/monitor/") && document.body.innerText.includes("default.rows")`)
	tab.picture("queues")
	// asynqmon's own part has violations.
	tab.accessible("the bar of the queues", axe, `document.getElementById("orgops")`)
	icons := evaluate[int](tab,
		`[...document.querySelectorAll("svg")].filter((e) => e.getBoundingClientRect().width > 8).length`)
	if icons == 0 {
		t.Error("no icons are seen")
	}

	tab.open("/monitor/queues/"+queues.OfRows(tasks.DefaultTenant)+"?status=active", "body")
	tab.until("a task", fmt.Sprintf(`document.body.innerText.includes(%q)`, slowRun))
	tab.picture("task")
}

// actions cancels a run by clicks, and retries it.
func (o operated) actions(t *testing.T, b *browser) {
	tab := b.tab(t)
	tab.open(runPath(slowRun), "#do-cancel")
	tab.do("cancel", chromedp.Click(chromedp.CSS("#do-cancel summary")),
		chromedp.Click(chromedp.CSS("#do-cancel form button")))
	await(t, "the run is cancelled", func() bool { return !o.run(slowRun).CancelledAt.IsZero() })
	tab.until("it is told", `document.querySelector(".banner[role=status]")?.innerText.includes("cancelled")`)
	o.ended(slowRun)
	tab.until("a retry is offered", `document.querySelector("#do-retry")`)
	tab.do("retry", chromedp.Click(chromedp.CSS("#do-retry summary")),
		chromedp.Click(chromedp.CSS("#do-retry form button")))
	var again string
	await(t, "the retry", func() bool {
		all, err := o.ledger.Runs(t.Context())
		for _, r := range all {
			if r.Parent == slowRun {
				again = string(r.ID)
			}
		}
		return err == nil && again != ""
	})
	tab.open(runPath(slowRun), `main a[href="`+runPath(again)+`"]`)
}
