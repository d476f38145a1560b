package console

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/hibiken/asynq"
	"github.com/hibiken/asynqmon"
	"github.com/redis/go-redis/v9"
)

// monitor is asynqmon, made to fit: its index page asks nobody outside for fonts and
// has a bar of ours, its writes are refused or written down, and what it has no file
// for is not found.
type monitor struct {
	asynqmon http.Handler
	index    []byte
	policy   string
	write    bool
	logger   *slog.Logger
}

func newMonitor(cfg Config) *monitor {
	m := &monitor{write: cfg.Write, logger: cfg.logger(), asynqmon: asynqmon.New(asynqmon.Options{
		RootPath:         monitorRoot,
		RedisConnOpt:     connOpt{cfg.Redis},
		PayloadFormatter: asynqmon.PayloadFormatterFunc(formatted),
		ResultFormatter:  asynqmon.ResultFormatterFunc(formatted),
		ReadOnly:         !cfg.Write,
	})}
	index := answerOf(m.asynqmon, monitorRoot+"/")
	m.index = localIndex(index.body.Bytes())
	m.policy = monitorPolicy(m.index)
	return m
}

// connOpt hands asynqmon the client that there is already: it knows the user
// name, Sentinel and TLS, which asynq's own options lose in part.
type connOpt struct{ client redis.UniversalClient }

var _ asynq.RedisConnOpt = connOpt{}

// MakeRedisClient returns the given client.
func (c connOpt) MakeRedisClient() any { return c.client }

// monitorViews are the paths at which asynqmon's script shows something: all of them
// are its index page.
var monitorViews = regexp.MustCompile(`^` + monitorRoot + `/(|servers|schedulers|redis|metrics|settings|queues/[^/]+(/tasks/[^/]+)?)$`)

// ServeHTTP serves the index page, asynqmon's files, and what its script asks for.
func (m *monitor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead
	switch {
	case strings.HasPrefix(r.URL.Path, monitorRoot+"/api/"):
		if !reads && !m.mayWrite(w, r) {
			return
		}
		m.asynqmon.ServeHTTP(w, ofOnePage(r))
	case !reads:
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "this address is read-only", http.StatusMethodNotAllowed)
	case monitorViews.MatchString(r.URL.Path):
		w.Header().Set("Content-Security-Policy", m.policy)
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write(m.index) // who has gone is not told
	default:
		m.serveFile(w, r)
	}
}

// What a list of asynqmon's may be asked for.
const (
	mostTasks = 100 // on a page, as many as its own script asks for at the most
	lastPage  = 100_000
)

// ofOnePage is the request with its page and the size of it within bounds: asynqmon
// takes any number, 0 and less for the whole queue, and would hold all its tasks in
// this process's memory.
func ofOnePage(r *http.Request) *http.Request {
	query := r.URL.Query()
	for name, most := range map[string]int{"size": mostTasks, "page": lastPage} {
		if !query.Has(name) {
			continue
		}
		n, err := strconv.Atoi(query.Get(name))
		if err != nil {
			query.Del(name)
			continue
		}
		query.Set(name, strconv.Itoa(min(max(n, 1), most)))
	}
	bounded := r.Clone(r.Context())
	bounded.URL.RawQuery = query.Encode()
	return bounded
}

// serveFile serves a file of asynqmon's, which answers with its index page where it has
// none.
func (m *monitor) serveFile(w http.ResponseWriter, r *http.Request) {
	file := answerOf(m.asynqmon, r.URL.Path)
	mediaType := file.header.Get("Content-Type")
	if mediaType == "" || strings.HasPrefix(mediaType, "text/html") {
		http.NotFound(w, r)
		return
	}
	if strings.HasSuffix(r.URL.Path, ".svg") {
		mediaType = "image/svg+xml" // it says text/xml, which no browser takes for a picture
	}
	w.Header().Set("Content-Type", mediaType)
	_, _ = file.body.WriteTo(w)
}

// farLinks are those of the index page that lead to another host.
var farLinks = regexp.MustCompile(`<link\b[^>]*\bhref="https?://[^>]*>`)

// localIndex is the index page without what another host would be asked for (fonts,
// without which it uses the reader's own; its icons are drawings in its script), and
// with the bar that leads back to our pages.
func localIndex(index []byte) []byte {
	index = farLinks.ReplaceAll(index, nil)
	return bytes.Replace(index, []byte("</head>"),
		[]byte(`<link rel="stylesheet" href="/static/monitor.css"><script src="/static/monitor.js" defer></script></head>`), 1)
}

// inlineScripts finds the scripts that stand in a page itself.
var inlineScripts = regexp.MustCompile(`(?s)<script>(.*?)</script>`)

// monitorPolicy is the content security policy under which asynqmon works: its
// files and ours, the scripts in its index page by their hash, and styles anywhere,
// since its widgets write their own.
func monitorPolicy(index []byte) string {
	scripts := []string{"script-src 'self'"}
	for _, script := range inlineScripts.FindAllSubmatch(index, -1) {
		sum := sha256.Sum256(script[1])
		scripts = append(scripts, "'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'")
	}
	return strings.Join([]string{
		strictPolicy,
		strings.Join(scripts, " "),
		"style-src 'self' 'unsafe-inline'",
		"img-src 'self' data:",
		"font-src 'self' data:",
		"connect-src 'self'",
		"manifest-src 'self'",
	}, "; ")
}

// answerOf is what the handler answers to a GET of that path.
func answerOf(h http.Handler, path string) *capture {
	answer := &capture{header: http.Header{}}
	r, err := http.NewRequest(http.MethodGet, "/", nil)
	if err != nil { // method and path are constants
		panic(fmt.Sprintf("ops: request for a page: %v", err))
	}
	r.URL.Path = path
	h.ServeHTTP(answer, r)
	return answer
}

// capture keeps what a handler answers.
type capture struct {
	header http.Header
	body   bytes.Buffer
}

func (c *capture) Header() http.Header         { return c.header }
func (c *capture) WriteHeader(int)             {}
func (c *capture) Write(p []byte) (int, error) { return c.body.Write(p) }

// What of asynqmon's writes is let through: a queue is paused and goes on; tasks are
// run, archived and deleted, one or those chosen; all of a state only where no row can
// lose its task by that.
var (
	queueWrite = regexp.MustCompile(`^POST ` + monitorRoot + `/api/queues/[^/]+:(pause|resume)$`)
	taskWrite  = regexp.MustCompile(`^(DELETE|POST) ` + monitorRoot + `/api/queues/[^/]+/(pending|scheduled|retry|archived|completed)_tasks(/[^/]+|:batch_(run|archive|delete))$`)
	allWrite   = regexp.MustCompile(`^(POST ` + monitorRoot + `/api/queues/[^/]+/(scheduled|retry|archived)_tasks:run_all|DELETE ` + monitorRoot + `/api/queues/[^/]+/(archived|completed)_tasks:delete_all)$`)
)

// mayWrite says whether the request is let through, answers it if not, and writes down
// who does it.
func (m *monitor) mayWrite(w http.ResponseWriter, r *http.Request) bool {
	refuse := func(status int, why string) bool {
		http.Error(w, why, status)
		return false
	}
	if !m.write {
		w.Header().Set("Allow", "GET, HEAD")
		return refuse(http.StatusMethodNotAllowed, "these pages are read-only: start the worker with --ops-write to allow actions")
	}
	what := r.Method + " " + r.URL.Path
	if !queueWrite.MatchString(what) && !taskWrite.MatchString(what) && !allWrite.MatchString(what) {
		return refuse(http.StatusForbidden, "refused: this page cannot delete a queue, cancel a running task, or delete or archive all waiting tasks of a queue, "+
			"because their rows would stay open without a task. Pause or cancel the run on its page instead")
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return refuse(http.StatusRequestEntityTooLarge, "refused: the list of tasks is unreadable or too long")
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	var chosen struct {
		IDs []string `json:"task_ids"`
	}
	_ = json.Unmarshal(body, &chosen) // most have none; asynqmon refuses what it cannot read
	m.logger.InfoContext(r.Context(), "queue changed by hand", "user", UserOf(r.Context()), "method", r.Method, "path", printable(r.URL.Path), "tasks", printable(strings.Join(chosen.IDs, " ")))
	return true
}
