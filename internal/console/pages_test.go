package console_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"orgops/internal/console"
	"orgops/internal/engine"
	"orgops/internal/ledger"
	"orgops/internal/web"
)

const token = "0123456789abcdef0123456789abcdef"

// pages is the operator's pages over a Redis of their own.
type pages struct {
	http.Handler
	redis *miniredis.Miniredis
	rdb   redis.UniversalClient
	log   *bytes.Buffer
}

func newPages(t *testing.T, changes ...func(*console.Config)) pages {
	t.Helper()
	m := miniredis.RunT(t)
	rdb := redis.NewClient(&redis.Options{Addr: m.Addr()})
	t.Cleanup(func() {
		if err := rdb.Close(); err != nil {
			t.Errorf("close the client: %v", err)
		}
	})
	var log bytes.Buffer
	cfg := console.Config{Redis: rdb, Ledger: ledger.New(rdb),
		Unsigned: web.Reader, Logger: slog.New(slog.NewTextHandler(&log, nil))}
	for _, change := range changes {
		change(&cfg)
	}
	return pages{
		Handler: console.Pages(cfg),
		redis:   m,
		rdb:     rdb,
		log:     &log,
	}
}

func (p pages) enqueue(t *testing.T, typ, payload string) {
	t.Helper()
	task := asynq.NewTask(typ, []byte(payload))
	if _, err := asynq.NewClientFromRedisClient(p.rdb).EnqueueContext(t.Context(), task,
		asynq.Queue("default.dns")); err != nil {
		t.Fatal(err)
	}
}

type change func(*http.Request)

func header(name, value string) change {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

func (p pages) do(method, path string, changes ...change) *http.Response {
	r := httptest.NewRequest(method, path, nil)
	r.Host = "127.0.0.1:8080"
	for _, change := range changes {
		change(r)
	}
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	return w.Result()
}

func text(t *testing.T, resp *http.Response) string {
	t.Helper()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func TestRoots(t *testing.T) {
	p := newPages(t)
	support := newPages(t, func(c *console.Config) { c.Unsigned = web.Support })
	if resp := support.do(http.MethodGet, "/"); resp.Header.Get("Location") != "/domains" {
		t.Errorf("support is led to %q", resp.Header.Get("Location"))
	}
	for path, want := range map[string]string{"/monitor": "/monitor/"} {
		resp := p.do(http.MethodGet, path)
		if resp.StatusCode/100 != 3 || resp.Header.Get("Location") != want {
			t.Errorf("GET %s: %d to %q, want a redirect to %q", path, resp.StatusCode, resp.Header.Get("Location"), want)
		}
	}
	if resp := p.do(http.MethodGet, "/elsewhere"); resp.StatusCode != http.StatusNotFound {
		t.Errorf("GET /elsewhere: %d, want 404", resp.StatusCode)
	}
}

func TestMonitorShowsQueuesAndTasks(t *testing.T) {
	p := newPages(t)
	p.enqueue(t, "domain:verify", `{"v":1,"verification_txt":"`+token+`","organization_id":"org_1"}`)

	var list struct {
		Queues []struct {
			Queue   string `json:"queue"`
			Pending int    `json:"pending"`
		} `json:"queues"`
	}
	decode(t, p.do(http.MethodGet, "/monitor/api/queues"), &list)
	if len(list.Queues) != 1 || list.Queues[0].Queue != "default.dns" || list.Queues[0].Pending != 1 {
		t.Errorf("queues: %+v, want default.dns with one pending task", list.Queues)
	}

	var tasks struct {
		Tasks []struct {
			Type    string `json:"type"`
			Payload string `json:"payload"`
		} `json:"tasks"`
	}
	decode(t, p.do(http.MethodGet, "/monitor/api/queues/default.dns/pending_tasks"), &tasks)
	if len(tasks.Tasks) != 1 || tasks.Tasks[0].Type != "domain:verify" {
		t.Fatalf("pending tasks: %+v, want one domain:verify", tasks.Tasks)
	}
	want := `{"v":1,"verification_txt":"` + token + `","organization_id":"org_1"}`
	if diff := cmp.Diff(want, tasks.Tasks[0].Payload); diff != "" {
		t.Errorf("payload (-want +got):\n%s", diff)
	}
}

func decode(t *testing.T, resp *http.Response, into any) {
	t.Helper()
	body := text(t, resp)
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s", resp.Status, body)
	}
	if err := json.Unmarshal([]byte(body), into); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
}

// TestMonitorOpensATask reads a task by its id, as asynqmon's page of a task does.
func TestMonitorOpensATask(t *testing.T) {
	p := newPages(t)
	seg := ledger.Segment{Tenant: "default", Run: "July_import-2", Incarnation: "a5uqbuuqdvr2ijqd", Number: 3}
	id := engine.NewTask(ledger.Run{ID: seg.Run}, seg, ledger.NewToken(), ledger.ReleasedRow{Row: 7}).ID()
	if !strings.HasPrefix(id, "July_import-2:3:7:") {
		t.Errorf("id %q does not begin with run, segment and row", id)
	}
	if _, err := asynq.NewClientFromRedisClient(p.rdb).Enqueue(asynq.NewTask("domain:verify", []byte(`{"v":1}`)),
		asynq.Queue("default.dns"), asynq.TaskID(id)); err != nil {
		t.Fatal(err)
	}
	var task struct{ ID, Payload string }
	decode(t, p.do(http.MethodGet, "/monitor/api/queues/default.dns/tasks/"+url.PathEscape(id)), &task)
	if task.ID != id || !strings.Contains(task.Payload, `"v":1`) {
		t.Errorf("task %+v, want %s", task, id)
	}
	if page := p.do(http.MethodGet, "/monitor/queues/default.dns/tasks/"+url.PathEscape(id)); page.StatusCode != 200 {
		t.Errorf("the page of the task: %s", page.Status)
	}
}

func TestMonitorWorksUnderItsPolicy(t *testing.T) {
	p := newPages(t)
	for _, path := range []string{"/monitor/", "/monitor/queues/default.dns"} {
		resp := p.do(http.MethodGet, path)
		page := text(t, resp)
		policy := resp.Header.Get("Content-Security-Policy")
		if resp.StatusCode != http.StatusOK || !strings.Contains(page, `FLAG_ROOT_PATH="\/monitor"`) ||
			!strings.Contains(page, `FLAG_READ_ONLY="true"`) {
			t.Fatalf("GET %s: %s\n%s", path, resp.Status, page)
		}
		inline := regexp.MustCompile(`(?s)<script>(.*?)</script>`).FindAllStringSubmatch(page, -1)
		if len(inline) != 2 {
			t.Errorf("%d scripts in the page itself, want 2", len(inline))
		}
		for _, script := range inline {
			sum := sha256.Sum256([]byte(script[1]))
			if hash := "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"; !strings.Contains(policy, hash) {
				t.Errorf("the policy %q lacks the script %.60s…", policy, script[1])
			}
		}
		for _, file := range regexp.MustCompile(`src="([^"]+\.js)"`).FindAllStringSubmatch(page, -1) {
			script := p.do(http.MethodGet, file[1])
			if script.StatusCode != http.StatusOK ||
				!strings.Contains(strings.Split(script.Header.Get("Content-Type"), ";")[0], "/javascript") {
				t.Errorf("GET %s: %s, %s", file[1], script.Status, script.Header.Get("Content-Type"))
			}
		}
		for _, forbidden := range []string{"script-src 'self' 'unsafe-inline'", "unsafe-eval", "http:", "https:"} {
			if strings.Contains(policy, forbidden) {
				t.Errorf("the policy %q allows %s", policy, forbidden)
			}
		}
	}
}

// TestProblemsArePages: a browser gets a page with the navigation and what to do, a program a line.
func TestProblemsArePages(t *testing.T) {
	p := newPages(t)
	for _, tc := range []struct {
		method, path string
		status       int
		says         string
	}{
		{http.MethodGet, "/nothing", http.StatusNotFound, "There is no page at this address."},
		{http.MethodGet, "/monitor/nothing", http.StatusNotFound, "There is no page at this address."},
		{http.MethodGet, "/static/none.css", http.StatusNotFound, "There is no page at this address."},
		{http.MethodGet, "/selection", http.StatusForbidden, "Your role is reader, which may not do this."},
		{http.MethodGet, "/runs/a/pause", http.StatusMethodNotAllowed, "It only takes the forms of other pages."},
	} {
		for _, accepted := range []string{"text/html,*/*;q=0.8", "application/json", ""} {
			resp := p.do(tc.method, tc.path, header("Accept", accepted))
			body, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			opened := strings.HasPrefix(accepted, "text/html")
			whole := strings.Contains(string(body), `<nav aria-label="Pages">`) &&
				strings.Contains(string(body), "What to do:") && strings.Contains(string(body), tc.says)
			if resp.StatusCode != tc.status || whole != opened {
				t.Errorf("%s %s for %q: %d, %s", tc.method, tc.path, accepted, resp.StatusCode, body)
			}
		}
	}
}

func TestPagesAreReadOnly(t *testing.T) {
	t.Parallel()
	const pause = "/monitor/api/queues/default.dns:pause"
	sameOrigin := []change{header("Origin", "http://127.0.0.1:8080"), header("Sec-Fetch-Site", "same-origin")}
	tests := []struct {
		name, method, path string
		changes            []change
		want               int
	}{
		{"from this page", http.MethodPost, pause, sameOrigin, http.StatusMethodNotAllowed},
		{"from no browser", http.MethodPost, pause, nil, http.StatusForbidden},
		{"delete", http.MethodDelete, "/monitor/api/queues/default.dns", sameOrigin, http.StatusMethodNotAllowed},
		{"post on what only GET has", http.MethodPost, "/monitor/api/queues", sameOrigin, http.StatusMethodNotAllowed},
		{"post on a page", http.MethodPost, "/monitor/", sameOrigin, http.StatusMethodNotAllowed},
		{"post on the root", http.MethodPost, "/", sameOrigin, http.StatusMethodNotAllowed},
		{"from another site", http.MethodPost, pause, []change{header("Sec-Fetch-Site", "cross-site")}, http.StatusForbidden},
		{"from another port", http.MethodPost, pause, []change{header("Sec-Fetch-Site", "same-site")}, http.StatusForbidden},
		{"from another origin, old browser", http.MethodPost, pause,
			[]change{header("Origin", "http://evil.example")}, http.StatusForbidden},
		{"override in a header", http.MethodGet, "/monitor/api/queues/default.dns",
			[]change{header("X-HTTP-Method-Override", "DELETE")}, http.StatusOK},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p := newPages(t)
			p.enqueue(t, "domain:verify", `{}`)
			if resp := p.do(test.method, test.path, test.changes...); resp.StatusCode != test.want {
				t.Errorf("%s %s: %d, want %d", test.method, test.path, resp.StatusCode, test.want)
			}
			queue, err := asynq.NewInspectorFromRedisClient(p.rdb).GetQueueInfo("default.dns")
			if err != nil {
				t.Fatal(err)
			}
			if queue.Paused || queue.Pending != 1 {
				t.Errorf("the queue is paused: %v, with %d pending; want it untouched", queue.Paused, queue.Pending)
			}
		})
	}
}

func TestPagesWhileRedisRefuses(t *testing.T) {
	t.Parallel()
	p := newPages(t)
	p.redis.SetError("LOADING Redis is loading the dataset in memory")
	resp := p.do(http.MethodGet, "/monitor/api/queues")
	if body := text(t, resp); resp.StatusCode != http.StatusInternalServerError || !strings.Contains(body, "LOADING") {
		t.Errorf("GET /monitor/api/queues: %s %q, want 500 with Redis's words", resp.Status, body)
	}
	if resp := p.do(http.MethodGet, "/monitor/"); resp.StatusCode != http.StatusOK {
		t.Errorf("GET /monitor/: %s, want 200", resp.Status)
	}
}

// TestMonitorShowsQueuesOfIDsWithoutTasks: Redis has no memory of an id whose task is gone. The
// page shows the queues all the same.
func TestMonitorShowsQueuesOfIDsWithoutTasks(t *testing.T) {
	p := newPages(t)
	p.enqueue(t, "domain:verify", `{}`)
	for _, set := range []string{"retry", "scheduled", "completed"} {
		err := p.rdb.ZAdd(t.Context(), "asynq:{default.dns}:"+set, redis.Z{Score: 2e9, Member: "ghost"}).Err()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{"/queues", "/queues/default.dns", "/queues/default.dns/pending_tasks"} {
		resp := p.do(http.MethodGet, "/monitor/api"+path)
		if body := text(t, resp); resp.StatusCode != http.StatusOK || !strings.Contains(body, `"pending":1`) {
			t.Errorf("GET %s: %s %s, want 200 with a pending task", path, resp.Status, body)
		}
	}
}

// TestMonitorListsOnePage checks that a list has at most a hundred entries, for any
// parameters.
func TestMonitorListsOnePage(t *testing.T) {
	p := newPages(t)
	for range 150 {
		p.enqueue(t, "domain:verify", `{}`)
	}
	for query, want := range map[string]int{
		"": 20, "?size=30": 30, "?size=100": 100, "?size=101": 100, "?size=400000": 100, "?size=0": 1, "?size=-1": 1,
		"?size=x": 20, "?size=99999999999999999999": 20,
		"?size=0&size=0": 1, "?size=50&size=0": 50, "?size=%2D1": 1, "?size=100&page=2": 50, "?size=100&page=-1": 100,
		"?size=100&page=9223372036854775807": 0,
	} {
		var list struct {
			Tasks []json.RawMessage `json:"tasks"`
		}
		resp := p.do("GET", "/monitor/api/queues/default.dns/pending_tasks"+query)
		if err := json.NewDecoder(resp.Body).Decode(&list); err != nil || len(list.Tasks) != want {
			t.Errorf("%q: status %d, %d tasks, error %v; want %d", query, resp.StatusCode, len(list.Tasks), err, want)
		}
	}
}
