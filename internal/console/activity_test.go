package console_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"orgops/internal/activity"
	"orgops/internal/console"
	"orgops/internal/intake"
	"orgops/internal/ledger"
	"orgops/internal/web"
	"orgops/tasks"
)

var (
	entryRow  = regexp.MustCompile(`id="entry-[^"]*"`)
	olderLink = regexp.MustCompile(`href="(/activity[^"]*after=[^"]*)">Older`)
)

// TestActivityOfAUser checks that entries, names, pages and cursors of the activity have tenants
// of the user's entry only, and that no entry is missing or shown twice.
func TestActivityOfAUser(t *testing.T) {
	d := newDesk(t)
	names := []string{"default", "other", "third"}
	for _, name := range names {
		in := strings.NewReader("organization_id,discovery_domain_id\norg_9,dom_9\n")
		_, err := d.taker.Submit(t.Context(), intake.Input{Name: "rows", Kind: tasks.TypeVerify, Rows: in},
			ledger.NewRun{ID: ledger.RunID("of-" + name), Tenant: ledger.Tenant(name)})
		mustNot(t, err)
	}
	for i := range 180 {
		by := activity.Author{Redis: d.rdb, Name: fmt.Sprint("<b>user", i%2)}
		by.Record(t.Context(), activity.OfRun(names[i%3], "of-"+names[i%3], activity.Paused, fmt.Sprint("act", i)))
	}
	file, tokens := access(t,
		web.User{Name: "olga", Role: web.Reader, Tenants: []string{"default", "third"}},
		web.User{Name: "all", Role: web.Operator, Tenants: []string{"*"}})
	h := console.Pages(console.Config{Redis: d.rdb, Ledger: d.ledger, Intake: d.taker, Access: file,
		Logger: slog.New(slog.DiscardHandler)})
	get := func(user, path string) (int, string) {
		w := do(h, http.MethodGet, path, nil, basic(tokens[user]))
		return w.Code, w.Body.String()
	}
	for _, c := range []struct {
		user, query string
		pages, want int
	}{
		{"all", "", 4, 180},
		{"olga", "", 3, 120},
		{"olga", "?tenant=third", 2, 60},
		{"olga", "?by=USER1&q=of-", 2, 60},
		{"olga", "?q=of-other", 1, 0},
	} {
		pages, rows, seen := 0, 0, map[string]bool{}
		for path := "/activity" + c.query; path != ""; pages++ {
			code, page := get(c.user, path)
			if code != 200 || strings.Contains(page, "<b>") ||
				c.user == "olga" && strings.Contains(page, "other") != strings.Contains(path, "other") {
				t.Fatalf("%s, %s: %d\n%s", c.user, path, code, plain(page))
			}
			found := entryRow.FindAllString(page, -1)
			for _, id := range found {
				seen[id] = true
			}
			rows, path = rows+len(found), ""
			if next := olderLink.FindStringSubmatch(page); next != nil {
				path = strings.ReplaceAll(next[1], "&amp;", "&")
			}
		}
		if pages != c.pages || rows != c.want || len(seen) != c.want {
			t.Errorf("%s, %q: %d entries, %d of them different, on %d pages; want %d on %d", c.user, c.query, rows, len(seen),
				pages, c.want, c.pages)
		}
	}
	for user, tenant := range map[string]string{"olga": "other", "all": "nobody"} {
		code, page := get(user, "/activity?tenant="+tenant)
		if code != http.StatusNotFound || !strings.Contains(page, "There is no tenant "+tenant) {
			t.Errorf("%s, tenant %s: %d\n%s", user, tenant, code, plain(page))
		}
	}
	_, page := get("all", "/activity")
	first, _, _ := strings.Cut(page, "act170<") // some have the same millisecond
	if !strings.Contains(first, "act179<") || strings.Contains(page, "act100<") ||
		!strings.Contains(page, "&lt;b&gt;user1<") ||
		!strings.Contains(page, `<a class="id" href="/runs/of-third?tenant=third">`) {
		t.Errorf("the newest entries are not the first:\n%s", plain(page))
	}
	for path, want := range map[string]int{"/activity?tenant=a}b": 404, "/activity?after=x": 400} {
		if code, page := get("olga", path); code != want {
			t.Errorf("%s: %d, want %d\n%s", path, code, want, plain(page))
		}
	}
}

// TestPausedBy checks that the page of a run says who paused it, and has a time line.
func TestPausedBy(t *testing.T) {
	d := newDesk(t)
	d.handIn("a", tasks.TypeVerify, domains(3))
	d.post("/runs/a/pause", url.Values{})
	page := plain(d.get("/runs/a"))
	if !strings.Contains(page, "paused by anybody since ") {
		t.Errorf("the page does not say who paused the run:\n%s", page)
	}
	d.post("/runs/a/pause", url.Values{}) // changes nothing
	d.post("/runs/a/resume", url.Values{})
	page = plain(d.get("/runs/a"))
	_, line, _ := strings.Cut(page, "Time line")
	if strings.Contains(page, "paused by anybody since ") || strings.Count(line, "paused by anybody") != 1 ||
		strings.Index(line, "resumed by anybody") < strings.Index(line, "paused by anybody") {
		t.Errorf("the time line is:\n%s", line)
	}
}
