package console_test

import (
	"fmt"
	"html"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"orgops/tasks"
)

var (
	causeLink = regexp.MustCompile(`<td class="number">(\d+)</td><td><a href="(/runs/a\?[^"]*)#rows-heading">`)
	hidden    = regexp.MustCompile(`<input type="hidden" name="([^"]+)" value="([^"]*)">`)
)

// formOf returns the fields of the form by which the rows of a search are retried.
func formOf(t *testing.T, page string) url.Values {
	t.Helper()
	_, form, found := strings.Cut(page, `<form id="retry-found"`)
	form, _, _ = strings.Cut(form, "</form>")
	if !found {
		t.Fatalf("no retry is offered:\n%s", plain(page))
	}
	fields := url.Values{}
	for _, field := range hidden.FindAllStringSubmatch(form, -1) {
		fields.Set(html.UnescapeString(field[1]), html.UnescapeString(field[2]))
	}
	return fields
}

// TestRetryOfAKind: of 300 rows that failed in 12 ways each way has its number, which leads to its
// rows, and there a button retries them: two clicks.
func TestRetryOfAKind(t *testing.T) {
	d := newDesk(t)
	d.handIn("a", tasks.TypeVerify, domains(300))
	kinds := strings.Fields("alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu")
	for i := range int64(300) {
		d.settle("a", []string{"failed", "refused"}[i%2], fmt.Sprintf("%s: GET /organizations/org_%d", kinds[i%12], i), i)
	}
	page := d.get("/runs/a")
	links := causeLink.FindAllStringSubmatch(page, -1)
	if len(links) != 12 {
		t.Fatalf("%d kinds, want 12:\n%s", len(links), plain(page))
	}
	for _, link := range links {
		rows := d.get(html.UnescapeString(link[2]))
		if n := strings.Count(rows, `<tr id="row-`); link[1] != "25" || n != 25 {
			t.Errorf("%s: number %s, %d rows; want 25", link[2], link[1], n)
		}
	}

	// The retry of one kind, once.
	form := formOf(t, d.get(html.UnescapeString(links[0][2])))
	page, at := d.post("/runs/a/retry", form)
	child := d.run(strings.TrimPrefix(at, "/runs/"))
	if !strings.Contains(page, "25 rows of run a were submitted again as this run.") || child.Total() != 25 {
		t.Errorf("%d rows at %s:\n%s", child.Total(), at, plain(page))
	}
	if page, _ = d.post("/runs/a/retry", form); !strings.Contains(page, "the search finds 0 rows now") {
		t.Errorf("the second retry:\n%s", plain(page))
	}
	page = d.get(html.UnescapeString(links[0][2]))
	if !strings.Contains(page, "No row of this search can be retried, or all of them were.") {
		t.Errorf("after the retry:\n%s", plain(page))
	}
}

// TestRetryOfASearch retries the rows that a search finds by a text in their ids, and nothing if it
// finds none, or others than those that were counted.
func TestRetryOfASearch(t *testing.T) {
	d := newDesk(t)
	d.handIn("a", tasks.TypeVerify, domains(9))
	d.settle("a", "failed", "timeout", 0, 1, 2, 3, 4)
	form := formOf(t, d.get("/runs/a?q=org_1+"))
	if form.Get("found") != "2" {
		t.Errorf("the search finds %s rows, want 2", form.Get("found"))
	}
	d.settle("a", "refused", "timeout", 7) // of org_1 too
	for name, tt := range map[string]struct {
		fields url.Values
		want   string
	}{
		"others since": {form, "the search finds 3 rows now that can be retried, and not 2: look at them again"},
		"none":         {url.Values{"q": {"nobody"}, "found": {"0"}}, "the search finds 0 rows now"},
		"no search":    {url.Values{"found": {"6"}}, "the search finds no row that can be retried"},
		"open rows":    {url.Values{"which": {"open"}, "q": {"org_1"}, "found": {"3"}}, "finds no row that can be retried"},
	} {
		if page, _ := d.post("/runs/a/retry", tt.fields); !strings.Contains(html.UnescapeString(page), tt.want) {
			t.Errorf("%s: want %q in\n%s", name, tt.want, plain(page))
		}
	}
	if children := d.run("a").Children; len(children) != 0 {
		t.Errorf("children %v, want none", children)
	}

	_, at := d.post("/runs/a/retry", formOf(t, d.get("/runs/a?q=org_1+&outcome=failed")))
	if child := d.run(strings.TrimPrefix(at, "/runs/")); child.Total() != 2 {
		t.Errorf("%d rows at %s, want 2", child.Total(), at)
	}
	for _, page := range []string{do(d.shown, "GET", "/runs/a?q=org_1", nil).Body.String(), d.get("/runs/a"),
		d.get("/runs/a?q=org_1&outcome=open")} {
		if strings.Contains(page, "retry-found") {
			t.Errorf("a retry is offered to a reader, or of no failed row:\n%s", plain(page))
		}
	}
}
