package console_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/internal/actions"
	"orgops/internal/activity"
	"orgops/internal/console"
	"orgops/internal/ledger"
	"orgops/internal/ledgertest"
	"orgops/internal/meters"
	"orgops/internal/pace"
	"orgops/internal/sweep"
	"orgops/internal/tenant"
	"orgops/internal/web"
	"orgops/tasks"
)

// hang has the commands of a client wait for the end of their contexts while it is on.
type hang struct {
	on  atomic.Bool
	end chan struct{} // closed at the end of the test
}

func (h *hang) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *hang) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return h.wait(ctx, func() error { return next(ctx, cmd) })
	}
}

func (h *hang) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, all []redis.Cmder) error {
		return h.wait(ctx, func() error { return next(ctx, all) })
	}
}

func (h *hang) wait(ctx context.Context, next func() error) error {
	if !h.on.Load() {
		return next()
	}
	if _, bounded := ctx.Deadline(); !bounded {
		return errors.New("a command that nothing bounds")
	}
	select {
	case <-ctx.Done():
	case <-h.end:
	}
	return errors.New("no answer")
}

// TestPagesWhileRedisHangs checks that the first page and that of a tenant answer with what the
// worker knows, and do not say that all is well.
func TestPagesWhileRedisHangs(t *testing.T) {
	t.Parallel()
	for _, known := range []bool{true, false} {
		t.Run(fmt.Sprint("read before ", known), func(t *testing.T) {
			t.Parallel()
			h := &hang{end: make(chan struct{})}
			t.Cleanup(func() { close(h.end) })
			h.on.Store(!known)
			p := newPages(t, func(c *console.Config) {
				c.Redis.AddHook(h)
				c.Tenants = func() []console.Tenant {
					return []console.Tenant{servedHere(tenant.Announced{Tenant: "acme", Rate: "10/s"})}
				}
			})
			// A busy machine may take longer for the first reading than a page waits for it.
			page := ""
			for range 20 {
				page = plain(text(t, p.do(http.MethodGet, "/")))
				if !known || strings.Contains(page, "acme without a worker") {
					break
				}
			}
			if known && !strings.Contains(page, "acme without a worker") {
				t.Errorf("before: %s", page)
			}
			h.on.Store(true)
			resp := p.do(http.MethodGet, "/")
			page = plain(text(t, resp))
			state := map[bool]string{true: "acme without a worker", false: "acme not known"}[known]
			if resp.StatusCode != http.StatusOK || !strings.Contains(page, "Not known") || !strings.Contains(page, state) ||
				!strings.Contains(page, "Reading Redis failed: ") || strings.Contains(page, "All is well") ||
				strings.Contains(page, "from the last reading, of 20") != known {
				t.Errorf("%d: %s", resp.StatusCode, page)
			}
			resp = p.do(http.MethodGet, "/tenants?tenant=acme")
			if page = plain(text(t, resp)); resp.StatusCode != http.StatusOK ||
				!strings.Contains(page, "only the parts that need no Redis") || !strings.Contains(page, "Rate 10/s") {
				t.Errorf("%d: %s", resp.StatusCode, page)
			}
		})
	}
}

// TestOverviewOfAUser checks that a user sees neither tenants nor workers nor numbers of others.
func TestOverviewOfAUser(t *testing.T) {
	d := newDesk(t)
	for id, served := range map[ledger.SessionID][]ledger.Tenant{livingWorker: {"default", "secret"},
		"worker0000000001": {"secret"}} {
		_, err := d.ledger.Renew(t.Context(), ledger.Session{ID: id, Host: "host-" + string(id[15:]), Tenants: served})
		mustNot(t, err)
	}
	_, err := pace.New(pace.Config{Redis: d.rdb, Tenant: "secret"}).Stop(t.Context(), "alice", "wrong file")
	mustNot(t, err)
	file, tokens := access(t, web.User{Name: "olga", Role: web.Operator, Tenants: []string{"default"}},
		web.User{Name: "rita", Role: web.Reader, Tenants: []string{"default"}},
		web.User{Name: "all", Role: web.Reader, Tenants: []string{"*"}})
	pages := console.Pages(console.Config{Redis: d.rdb, Ledger: d.ledger, Intake: d.taker, Access: file,
		Logger: slog.New(slog.DiscardHandler)})
	for user, sees := range map[string]bool{"olga": false, "rita": false, "all": true} {
		for _, path := range []string{"/", "/?from=secret", "/tenants", "/tenants?tenant=secret"} {
			w := do(pages, http.MethodGet, path, nil, basic(tokens[user]))
			page := strings.ReplaceAll(plain(w.Body.String()), "There is no tenant secret in this Redis.", "")
			if w.Code != http.StatusOK || strings.Contains(page, "secret") != sees {
				t.Errorf("%s, %s: %d: %s", user, path, w.Code, page)
			}
			if strings.HasPrefix(path, "/tenants") {
				continue
			}
			summary := map[bool]string{false: "All is well 1 worker serves 1 tenant.",
				true: "Needs attention 2 workers serve 2 tenants; 1 stopped. 1 matter needs attention."}[sees]
			if !strings.Contains(page, summary) || strings.Contains(page, "host-1") != sees ||
				strings.Contains(page, "2 tenants, ") != sees {
				t.Errorf("%s, %s: %s", user, path, page)
			}
		}
	}
}

// TestOverviewHasDeadWorkers has one worker of each of two tenants die: the first page names those
// of the user's tenants, and where the number of their rows is.
func TestOverviewHasDeadWorkers(t *testing.T) {
	d := newDesk(t)
	at := time.Now().Add(-time.Hour).UTC()
	for id, host := range map[ledger.SessionID]string{"worker0000000001": "host-1", "worker0000000002": "host-2"} {
		served := ledger.Tenant("default")
		if host == "host-2" {
			served = "secret"
		}
		s := ledger.Session{ID: id, Version: "v1", Host: host, Busy: 3, Tenants: []ledger.Tenant{served}}
		_, err := d.ledger.Renew(t.Context(), s)
		mustNot(t, err)
		seen := redis.Z{Score: float64(at.UnixMilli()), Member: string(id)}
		mustNot(t, d.rdb.ZAdd(t.Context(), "orgops:v3:{sessions}:seen", seen).Err())
	}
	mustNot(t, d.rdb.Set(t.Context(), "orgops:v3:{sessions}:since", "1600000000000", 0).Err())
	file, tokens := access(t, web.User{Name: "olga", Role: web.Operator, Tenants: []string{"default"}},
		web.User{Name: "all", Role: web.Reader, Tenants: []string{"*"}})
	pages := console.Pages(console.Config{Redis: d.rdb, Ledger: d.ledger, Intake: d.taker, Access: file,
		Logger: slog.New(slog.DiscardHandler)})
	died := "worker0000000001 on host-1, version v1: last seen at " + at.Format(time.DateTime) + " UTC , executing 3 tasks"
	for user, sees := range map[string]bool{"olga": false, "all": true} {
		w := do(pages, http.MethodGet, "/", nil, basic(tokens[user]))
		page := plain(w.Body.String())
		if !strings.Contains(page, died) || strings.Contains(page, "host-2") != sees ||
			!strings.Contains(page, "None is lost: Activity") {
			t.Errorf("%s: %s", user, page)
		}
	}

	// The link leads to their entries in the activity.
	d.handIn("a", tasks.TypeVerify, domains(2))
	all, err := d.ledger.Died(t.Context())
	mustNot(t, err)
	by := activity.Author{Redis: d.rdb, Logger: slog.New(slog.DiscardHandler), Name: "worker"}
	mustNot(t, actions.RecordDeaths(t.Context(), by, "default", all))
	overview := do(pages, http.MethodGet, "/", nil, basic(tokens["olga"])).Body.String()
	_, after, _ := strings.Cut(overview, `None is lost: <a href="`)
	link, _, _ := strings.Cut(after, `"`)
	found := plain(do(pages, http.MethodGet, link, nil, basic(tokens["olga"])).Body.String())
	if !strings.Contains(found, "worker worker0000000001; it executed no row of this tenant; none is lost") {
		t.Errorf("%s: %s", link, found)
	}
}

// TestOverviewIsBrief: a warning has the fact, since when, and the act as a link to the page with
// the whole remedy.
func TestOverviewIsBrief(t *testing.T) {
	d := newDesk(t)
	_, err := actions.StopTenant(t.Context(), activity.Author{Redis: d.rdb, Name: "ada"}, "default", "wrong file")
	mustNot(t, err)
	d.handIn("a", tasks.TypeVerify, domains(2))
	page := d.get("/")
	text := plain(page)
	if !strings.Contains(page, `<a href="/tenants?tenant=default">Start it</a>`) ||
		!strings.Contains(text, "The tenant is stopped by ada at ") || strings.Contains(text, "enqueue tenant start") {
		t.Errorf("the overview: %s", text)
	}
	if page := plain(d.get("/tenants?tenant=default")); !strings.Contains(page, "to start it: enqueue tenant start default") {
		t.Errorf("the tenant's page: %s", page)
	}
}

// TestPlots checks that the plots and their tables have the numbers, and no bar is higher than the
// plot.
func TestPlots(t *testing.T) {
	d := newDesk(t)
	if page := plain(d.get("/tenants?tenant=default")); !strings.Contains(page,
		"Last hour No row was settled, no request sent and no domain checked. Last day") {
		t.Errorf("without data: %s", page)
	}
	m := meters.New()
	m.Add("default", meters.Allowed, 2000)
	m.Add("default", meters.Good, 1200)
	m.Add("default", meters.Failed, 34)
	m.Add("default", meters.Absent, 7)
	m.Request("default", http.StatusOK)
	m.Request("default", http.StatusTooManyRequests)
	mustNot(t, m.Flush(t.Context(), d.rdb))
	page := d.get("/tenants?tenant=default")
	for _, want := range []string{"34 failed ■ 1,200 done or unchanged 1,234 a minute", "1 refused (429) ■ 1 not refused",
		"allowed by the rate 2,000 a minute", "30,000 a quarter of an hour", "7 token absent ■ 0 unknown ■ 0 token present",
		" 2,000 1,200 34 1 1 0 7 0 ", " 30,000 1,200 34 1 1 0 7 0 "} {
		if text := plain(page); !strings.Contains(text, want) {
			t.Errorf("the page lacks %q: %s", want, text)
		}
	}
	if strings.Contains(page, "style=") {
		t.Error("an inline style")
	}
	heights := regexp.MustCompile(`V(-?\d+)h`).FindAllStringSubmatch(page, -1)
	for _, height := range heights {
		if strings.HasPrefix(height[1], "-") || height[1] == "100" {
			t.Errorf("a bar ends at %s of 100", height[1])
		}
	}
	if len(heights) < 6 {
		t.Errorf("%d bars", len(heights))
	}
	page = d.get("/")
	for _, want := range []string{"34 failed, 1,200 done or unchanged; at most 1,234", "rows/min, 1 h, max 1,234",
		"requests/min, 1 h, max 2,000"} {
		if !strings.Contains(page, want) {
			t.Errorf("no strip on the first page with %q", want)
		}
	}
}

// TestNumbersAreGrouped checks that large numbers have their digits in threes in sentences too, and
// that one row is no rows.
func TestNumbersAreGrouped(t *testing.T) {
	d := newDesk(t)
	d.handIn("many", tasks.TypeVerify, domains(1240))
	d.handIn("one", tasks.TypeVerify, domains(1))
	d.settle("one", "refused", "404: no such domain", 0)
	value, err := json.Marshal(sweep.Summary{Tick: 1_900_000_000, Run: "sweep-7", Lost: 1200, Absent: 1300, Present: 1})
	mustNot(t, err)
	_, err = sweep.NewStore(d.rdb, "default").SetState(t.Context(), sweep.SummaryState, nil, value)
	mustNot(t, err)
	d.serve()
	for path, want := range map[string][]string{
		"/":                         {"1,240 open rows", "1,200 domains lost", "1,300 absent"},
		"/runs":                     {"0 of 1,240 rows settled", "1 of 1 row settled"},
		"/tenants?tenant=default":   {"0 organizations, 1,301 domains: 1 present, 1,300 absent (gone for the grace period: 1,200 lost"},
		"/runs/one?outcome=refused": {"1 of 1 row settled", "1 row, in order"},
	} {
		page := plain(d.get(path))
		for _, text := range want {
			if !strings.Contains(page, text) {
				t.Errorf("%s does not say %q: %s", path, text, page)
			}
		}
	}
}

// TestLastHour checks that the pages of a tenant's runs show its last hour, and none of another
// tenant or to a user of others.
func TestLastHour(t *testing.T) {
	d := newDesk(t)
	d.handIn("a", tasks.TypeVerify, domains(2))
	ledgertest.Submit(t, d.ledger, ledger.NewRun{ID: "b", Tenant: "secret", Kind: "clients:remove"})
	if page := plain(d.get("/runs?tenant=default")); !strings.Contains(page,
		"Tenant default, all its runs, last hour: no row was settled and no request sent") {
		t.Errorf("without numbers: %s", page)
	}
	m := meters.New()
	for tenant, failed := range map[string]int64{"default": 34, "secret": 77} {
		m.Add(tenant, meters.Failed, failed)
		m.Request(tenant, http.StatusOK)
	}
	mustNot(t, m.Flush(t.Context(), d.rdb))
	file, tokens := access(t, web.User{Name: "one", Role: web.Operator, Tenants: []string{"default"}},
		web.User{Name: "all", Role: web.Reader, Tenants: []string{"*"}})
	pages := console.Pages(console.Config{Redis: d.rdb, Ledger: d.ledger, Intake: d.taker, Access: file,
		Logger: slog.New(slog.DiscardHandler)})
	const ofDefault, ofSecret = "Tenant default, all its runs, last hour Rows/min, max 34: ■ 34 failed",
		"Tenant secret, all its runs, last hour Rows/min, max 77: ■ 77 failed"
	for _, c := range []struct{ user, path, want string }{
		{"one", "/runs", ofDefault}, {"one", "/runs?tenant=default", ofDefault}, {"one", "/runs/a", ofDefault},
		{"one", "/runs?tenant=secret", ""}, {"one", "/runs/b", ""}, {"one", "/runs?tenant=none", ""},
		{"all", "/runs", ""}, {"all", "/runs?tenant=secret", ofSecret}, {"all", "/runs/b", ofSecret},
	} {
		page := plain(do(pages, http.MethodGet, c.path, nil, basic(tokens[c.user])).Body.String())
		if !strings.Contains(page, c.want) || strings.Contains(page, "last hour") != (c.want != "") ||
			c.want != "" && !strings.Contains(page, "Requests/min, max 1: ■ 0 refused (429) ■ 1 not refused") {
			t.Errorf("%s, %s: %s", c.user, c.path, page)
		}
	}
}
