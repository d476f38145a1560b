package console

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/hibiken/asynq"
	"github.com/hibiken/asynqmon"
	"github.com/redis/go-redis/v9"

	"orgops/internal/activity"
	"orgops/internal/ids"
	"orgops/internal/web"
)

// monitorRoot is the path of asynqmon.
const monitorRoot = "/monitor"

// monitor adapts asynqmon: its index page loads no fonts from other hosts and has a bar of
// these pages, its writes are refused or logged, and missing files are not found.
type monitor struct {
	asynqmon http.Handler
	info     http.Handler // of Redis, which asynqmon serves over a client of go-redis alone
	index    []byte
	policy   string
	write    bool
	logger   *slog.Logger
	redis    redis.UniversalClient
	missing  http.HandlerFunc // answers paths that are neither a view nor a file
}

// monitors serves asynqmon, in which operators may act and readers may not. missing answers the
// paths that it does not have.
func monitors(cfg Config, missing http.HandlerFunc) http.HandlerFunc {
	shown := newMonitor(cfg, false, missing)
	acting := newMonitor(cfg, true, missing)
	return func(w http.ResponseWriter, r *http.Request) {
		if web.Of(r.Context()).User.Role == web.Operator {
			acting.ServeHTTP(w, r)
			return
		}
		shown.ServeHTTP(w, r)
	}
}

func newMonitor(cfg Config, write bool, missing http.HandlerFunc) *monitor {
	over := func(rdb redis.UniversalClient) http.Handler {
		return asynqmon.New(asynqmon.Options{RootPath: monitorRoot, RedisConnOpt: connOpt{rdb}, ReadOnly: !write})
	}
	m := &monitor{write: write, logger: cfg.Logger, redis: cfg.Redis, info: over(cfg.Redis),
		asynqmon: over(withoutMemory{cfg.Redis}), missing: missing}
	index := answerOf(m.asynqmon, monitorRoot+"/")
	m.index = localIndex(index.body.Bytes())
	m.policy = monitorPolicy(m.index)
	return m
}

// connOpt passes the existing client to asynqmon: asynq's own options lose part of user name,
// Sentinel and TLS.
type connOpt struct{ client redis.UniversalClient }

var _ asynq.RedisConnOpt = connOpt{}

// MakeRedisClient returns the given client.
func (c connOpt) MakeRedisClient() any { return c.client }

// withoutMemory is a client for asynqmon whose pages do not fail where Redis does not return the
// memory of tasks: it refuses MEMORY, or an id has no task any more. asynq reads it last of a
// queue, by a script of its own, for a figure that only informs; it is 0 then.
type withoutMemory struct{ redis.UniversalClient }

// EvalSha runs a script that Redis has.
func (c withoutMemory) EvalSha(ctx context.Context, sha1 string, keys []string, args ...any) *redis.Cmd {
	return known(c.UniversalClient.EvalSha(ctx, sha1, keys, args...), keys)
}

// Eval runs a script.
func (c withoutMemory) Eval(ctx context.Context, script string, keys []string, args ...any) *redis.Cmd {
	return known(c.UniversalClient.Eval(ctx, script, keys, args...), keys)
}

// known replaces the error by which Redis refuses the memory of a queue. asynq's script for
// it alone has seven keys, the last of which is that of the queue's groups.
func known(answer *redis.Cmd, keys []string) *redis.Cmd {
	_, refused := errors.AsType[redis.Error](answer.Err())
	asksMemory := len(keys) == 7 && strings.HasSuffix(keys[6], ":groups")
	if refused && asksMemory && !redis.HasErrorPrefix(answer.Err(), "NOSCRIPT") {
		answer.SetErr(nil)
		answer.SetVal(int64(0))
	}
	return answer
}

// monitorViews are the paths of asynqmon's script, each of which is its index page.
var monitorViews = regexp.MustCompile(`^` + monitorRoot +
	`/(|servers|schedulers|redis|metrics|settings|queues/[^/]+(/tasks/[^/]+)?)$`)

// ServeHTTP serves the index page, asynqmon's files, and the requests of its script.
func (m *monitor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead
	switch {
	case strings.HasPrefix(r.URL.Path, monitorRoot+"/api/"):
		if !reads {
			m.serveWrite(w, r)
			return
		}
		if r.URL.Path == monitorRoot+"/api/redis_info" {
			m.info.ServeHTTP(w, r)
			return
		}
		m.asynqmon.ServeHTTP(w, ofOnePage(r))
	case !reads:
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "this address is read-only", http.StatusMethodNotAllowed)
	case monitorViews.MatchString(r.URL.Path):
		w.Header().Set("Content-Security-Policy", m.policy)
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write(m.index) // fails if the client has gone
	default:
		m.serveFile(w, r)
	}
}

// Bounds of asynqmon's lists.
const (
	mostTasks = 100 // on a page: the most that its own script requests
	lastPage  = 100_000
)

// ofOnePage returns the request with its page and page size within bounds: asynqmon accepts any
// number, 0 and less for the whole queue, and would read all its tasks into memory.
func ofOnePage(r *http.Request) *http.Request {
	query := r.URL.Query()
	for name, most := range map[string]int{"size": mostTasks, "page": lastPage} {
		if n, err := strconv.Atoi(query.Get(name)); err == nil {
			query.Set(name, strconv.Itoa(min(max(n, 1), most)))
		} else {
			query.Del(name)
		}
	}
	bounded := r.Clone(r.Context())
	bounded.URL.RawQuery = query.Encode()
	return bounded
}

// serveFile serves a file of asynqmon, which answers with its index page if it has none.
func (m *monitor) serveFile(w http.ResponseWriter, r *http.Request) {
	file := answerOf(m.asynqmon, r.URL.Path)
	mediaType := file.header.Get("Content-Type")
	if mediaType == "" || strings.HasPrefix(mediaType, "text/html") {
		m.missing(w, r)
		return
	}
	if strings.HasSuffix(r.URL.Path, ".svg") {
		mediaType = "image/svg+xml" // it says text/xml, which browsers do not show as an image
	}
	w.Header().Set("Content-Type", mediaType)
	if strings.HasPrefix(r.URL.Path, monitorRoot+"/static/") { // whose names have a hash of the content
		w.Header().Set("Cache-Control", "private, max-age=31536000, immutable")
	}
	_, _ = w.Write(bytes.Replace(file.body.Bytes(), cutsIDs, namesRows, 1)) // fails if the client has gone
}

// asynqmon's script cuts the ids in its lists at their first hyphen: those of all runs of a day
// look alike. Here it cuts the token behind the last colon: run, segment and row are left.
var (
	cutsIDs   = []byte(`var t=e.indexOf("-");return`)
	namesRows = []byte(`var t=e.lastIndexOf(":");return`)
)

// farLinks are the links of the index page to other hosts, and to its manifest, which browsers
// fetch without the user's token.
var farLinks = regexp.MustCompile(`<link\b[^>]*\b(href="https?://|rel="manifest")[^>]*>`)

// localIndex returns the index page without the files of other hosts (fonts, without which it
// uses those of the browser; its icons are in its script), and with the bar of these pages.
func localIndex(index []byte) []byte {
	index = farLinks.ReplaceAll(index, nil)
	return bytes.Replace(index, []byte("</head>"),
		[]byte(`<link rel="stylesheet" href="`+asset("monitor.css")+`"><script src="`+asset("monitor.js")+
			`" defer></script></head>`), 1)
}

// inlineScripts finds the inline scripts of a page.
var inlineScripts = regexp.MustCompile(`(?s)<script>(.*?)</script>`)

// monitorPolicy returns the content security policy of asynqmon: files of this origin, the
// scripts of its index page by their hash, and all styles, since its widgets write their own.
func monitorPolicy(index []byte) string {
	var scripts strings.Builder
	for _, script := range inlineScripts.FindAllSubmatch(index, -1) {
		sum := sha256.Sum256(script[1])
		scripts.WriteString(" 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'")
	}
	return web.StrictPolicy + "; script-src 'self'" + scripts.String() + "; style-src 'self' 'unsafe-inline'; " +
		"img-src 'self' data:; font-src 'self' data:; connect-src 'self'"
}

// answerOf returns the answer of the handler to a GET of that path.
func answerOf(h http.Handler, path string) *capture {
	answer := &capture{header: http.Header{}}
	h.ServeHTTP(answer, &http.Request{Method: http.MethodGet, URL: &url.URL{Path: path}})
	return answer
}

// capture records the answer of a handler.
type capture struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (c *capture) Header() http.Header         { return c.header }
func (c *capture) WriteHeader(status int)      { c.status = status }
func (c *capture) Write(p []byte) (int, error) { return c.body.Write(p) }

// The writes of asynqmon that are allowed: pause and resume a queue; run, archive and delete
// chosen tasks; and all tasks of a state only if no row can lose its task by that.
var (
	queueWrite = regexp.MustCompile(`^POST ` + monitorRoot + `/api/queues/[^/]+:(pause|resume)$`)
	taskWrite  = regexp.MustCompile(`^(DELETE|POST) ` + monitorRoot +
		`/api/queues/[^/]+/(pending|scheduled|retry|archived|completed)_tasks(/[^/]+|:batch_(run|archive|delete))$`)
	allWrite = regexp.MustCompile(
		`^(POST ` + monitorRoot + `/api/queues/[^/]+/(scheduled|retry|archived)_tasks:run_all|DELETE ` + monitorRoot +
			`/api/queues/[^/]+/(archived|completed)_tasks:delete_all)$`)
	// eventLost matches those that take an event from its receiver for ever: nothing else has it.
	eventLost = regexp.MustCompile(`^(DELETE|POST) ` + monitorRoot + `/api/queues/[^/]+\.webhook\.[^/]+/` +
		`((pending|scheduled|retry)_tasks(/[^/:]+:archive|:batch_archive)|` +
		`(pending|scheduled|retry|archived)_tasks(/[^/:]+|:batch_delete|:delete_all))$`)
)

// serveWrite has asynqmon carry out a write that is allowed, and logs it with its user once it is
// done. One that asynqmon refuses, such as of a task that is gone, changes nothing.
func (m *monitor) serveWrite(w http.ResponseWriter, r *http.Request) {
	chosen, refused := m.mayWrite(w, r)
	if refused {
		return
	}
	answer := &capture{header: w.Header(), status: http.StatusOK}
	m.asynqmon.ServeHTTP(answer, r)
	if answer.status < http.StatusMultipleChoices {
		m.logWrite(r, chosen, answer.body.Bytes())
	}
	w.WriteHeader(answer.status)
	_, _ = w.Write(answer.body.Bytes()) // fails if the client has gone
}

// mayWrite answers a write that is not allowed. Of the others it returns the chosen tasks; nil: the
// path names them.
func (m *monitor) mayWrite(w http.ResponseWriter, r *http.Request) (chosen []string, refused bool) {
	refuse := func(status int, why string) ([]string, bool) {
		http.Error(w, why, status)
		return nil, true
	}
	if !m.write {
		w.Header().Set("Allow", "GET, HEAD")
		return refuse(http.StatusMethodNotAllowed, "your role is reader, which may not do this")
	}
	what := r.Method + " " + r.URL.Path
	switch {
	case eventLost.MatchString(what):
		return refuse(http.StatusForbidden,
			"refused: the event of this delivery would be lost for its receiver, since nothing else has it. Pause the "+
				"queue to hold its deliveries; remove the endpoint from the file of webhooks if nobody wants them: they are "+
				"given up after three days")
	case !queueWrite.MatchString(what) && !taskWrite.MatchString(what) && !allWrite.MatchString(what):
		return refuse(http.StatusForbidden,
			"refused: this page cannot delete a queue, cancel a running task, or delete or archive all waiting tasks of a queue, "+
				"because their rows would stay open without a task. Pause or cancel the run on its page instead")
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return refuse(http.StatusRequestEntityTooLarge, "refused: the list of tasks is unreadable or too long")
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	var list struct {
		IDs []string `json:"task_ids"`
	}
	_ = json.Unmarshal(body, &list) // most have none; asynqmon refuses invalid ones
	return list.IDs, false
}

// logWrite logs a write that was carried out. answer is asynqmon's, which names the chosen tasks
// with which it failed.
func (m *monitor) logWrite(r *http.Request, chosen []string, answer []byte) {
	var list struct {
		Failed []string `json:"failed_ids"`
	}
	_ = json.Unmarshal(answer, &list) // only answers about chosen tasks have a list
	if len(chosen) > 0 && len(list.Failed) == len(chosen) {
		return
	}
	m.logger.InfoContext(r.Context(), "queue changed by hand", "user", userOf(r.Context()), "method", r.Method, "path",
		printable(r.URL.Path), "tasks", printable(strings.Join(chosen, " ")), "failed", len(list.Failed))
	act := strings.TrimPrefix(r.URL.Path, monitorRoot+"/api/queues/")
	tenant, _, _ := strings.Cut(act, ".")
	if ids.CheckTenant(tenant) != nil {
		return
	}
	did := r.Method + " " + printable(act)
	if len(list.Failed) > 0 {
		did += fmt.Sprintf(", %d of %d tasks failed", len(list.Failed), len(chosen))
	}
	by := activity.Author{Redis: m.redis, Logger: m.logger, Name: userOf(r.Context())}
	by.Record(r.Context(), activity.Entry{Tenant: tenant, Action: activity.QueueChanged, Result: did})
}
