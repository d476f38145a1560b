package httpapi_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"orgops/internal/httpapi"
	"orgops/internal/intake"
	"orgops/internal/ledger"
	"orgops/internal/ledgertest"
	"orgops/internal/logtest"
	"orgops/internal/redistest"
	"orgops/internal/web"
)

func TestMain(m *testing.M) {
	redistest.Parallel(4)
	goleak.VerifyTestMain(m)
}

// Tokens of the tests' callers.
var (
	billing = "orgops_" + strings.Repeat("b", 64)
	crm     = "orgops_" + strings.Repeat("c", 64)
	few     = "orgops_" + strings.Repeat("f", 64)
)

func hashOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// billing may do all, crm verify domains of acme, and few ten rows a day, of org_1 and org_2.
var accessFile = fmt.Sprintf(`
- {name: billing, sha256: %s, role: submitter, kinds: ["*"], tenants: ["*"]}
- {name: crm, sha256: %s, role: submitter, kinds: [domain:verify], tenants: [acme]}
- {name: few, sha256: %s, role: submitter, kinds: ["*"], tenants: ["*"], organizations: [org_1, org_2], rows_a_day: 10}
`, hashOf(billing), hashOf(crm), hashOf(few))

// world is a server and what stands around it.
type world struct {
	t        testing.TB
	config   httpapi.Config
	kind     string // of the rows that are submitted
	url      string
	rdb      redis.Cmdable
	ledger   *ledger.Ledger
	log      *logtest.Buffer
	client   *http.Client
	server   http.Handler
	patience time.Duration // of the server's end
	stop     func()        // ends the server as SIGTERM does, and waits
}

// newWorld starts a server with tokens. Each of change changes its settings.
func newWorld(t testing.TB, change ...func(*httpapi.Config)) *world {
	t.Helper()
	rdb := redistest.New(t)
	w := &world{t: t, kind: "domain:verify", rdb: rdb, ledger: ledger.New(rdb), log: &logtest.Buffer{}}
	w.config = httpapi.Config{
		Redis: rdb, Ledger: w.ledger, Version: "test",
		Access: access(t, accessFile), Logger: slog.New(slog.NewTextHandler(w.log, nil)),
		Intake: newIntake(rdb, w.ledger),
		// A test that waits for nothing to happen cannot fail; these are for those in
		// which it does. Bodies wait for other requests, for long on a busy machine.
		Limits: httpapi.Limits{Poll: 5 * time.Millisecond, Heartbeat: 20 * time.Millisecond, Idle: 20 * time.Minute},
	}
	for _, c := range change {
		c(&w.config)
	}
	w.client = &http.Client{Transport: &http.Transport{}}
	t.Cleanup(func() {
		w.client.CloseIdleConnections()
		w.stop()
	})
	w.start()
	return w
}

func access(t testing.TB, text string) *web.Access {
	t.Helper()
	file := filepath.Join(t.TempDir(), "access.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	all, err := web.ReadAccess(file, slog.New(slog.DiscardHandler), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// start starts a server, or the next one.
func (w *world) start() { w.run(nil) }

func (w *world) run(certificate *tls.Config) {
	w.t.Helper()
	w.server = httpapi.New(w.config)
	url, _, stop, err := web.Serve(context.Background(), "127.0.0.1:0", certificate, w.server,
		slog.New(slog.DiscardHandler))
	if err != nil {
		w.t.Fatal(err)
	}
	w.url = url
	w.stop = sync.OnceFunc(func() {
		ctx := context.Background()
		if w.patience > 0 {
			var cancel func()
			ctx, cancel = context.WithTimeout(ctx, w.patience)
			defer cancel()
		}
		if err := stop(ctx); err != nil && w.patience == 0 {
			w.t.Errorf("the server ended: %v", err)
		}
	})
}

// response is an answer, read.
type response struct {
	*http.Response
	body string
}

// call is a request. Zero members are left out.
type call struct {
	method, path, token, key, body string
	header                         http.Header
	reader                         io.Reader // instead of body
}

func (w *world) request(c call) *http.Request {
	w.t.Helper()
	var body io.Reader = strings.NewReader(c.body)
	if c.reader != nil {
		body = c.reader
	}
	if c.method == "" {
		c.method = http.MethodGet
	}
	r, err := http.NewRequestWithContext(w.t.Context(), c.method, w.url+c.path, body)
	if err != nil {
		w.t.Fatal(err)
	}
	if c.header != nil {
		r.Header = c.header.Clone()
	}
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	if c.key != "" {
		r.Header.Set("Idempotency-Key", c.key)
	}
	return r
}

// do sends a request and holds the answer against openapi.yaml.
func (w *world) do(c call) response {
	w.t.Helper()
	r := w.request(c)
	got, err := w.client.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	return w.read(r, got)
}

func (w *world) read(r *http.Request, got *http.Response) response {
	w.t.Helper()
	defer got.Body.Close()
	body, err := io.ReadAll(got.Body)
	if err != nil {
		w.t.Fatalf("%s %s: %v", r.Method, r.URL.Path, err)
	}
	holdToDescription(w.t, r, got, body)
	return response{got, string(body)}
}

// description is openapi.yaml as it is served, and what finds routes in it.
var description = sync.OnceValues(func() (*openapi3.T, routers.Router) {
	doc, err := openapi3.NewLoader().LoadFromFile("openapi.yaml")
	if err != nil {
		panic(err)
	}
	doc.Servers = nil
	router, err := gorillamux.NewRouter(doc)
	if err != nil {
		panic(err)
	}
	text := func(body io.Reader, _ http.Header, _ *openapi3.SchemaRef, _ openapi3filter.EncodingFn) (any, error) {
		all, err := io.ReadAll(body)
		return string(all), err
	}
	for _, mediaType := range []string{"text/csv", "application/jsonl", "application/x-ndjson", "text/event-stream"} {
		openapi3filter.RegisterBodyDecoder(mediaType, text)
	}
	return doc, router
})

// holdToDescription is an error unless openapi.yaml has the answer's status, its
// headers and the form of its body. Answers to what is no route are problems.
func holdToDescription(t testing.TB, r *http.Request, got *http.Response, body []byte) {
	t.Helper()
	_, router := description()
	route, params, err := router.FindRoute(r)
	if errors.Is(err, routers.ErrPathNotFound) || errors.Is(err, routers.ErrMethodNotAllowed) {
		if got.StatusCode != http.StatusNotFound && got.StatusCode != http.StatusMethodNotAllowed &&
			got.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("%s %s: status %d of what openapi.yaml does not know", r.Method, r.URL.Path, got.StatusCode)
		}
		return
	}
	if err != nil {
		t.Errorf("%s %s: %v", r.Method, r.URL.Path, err)
		return
	}
	input := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: r, PathParams: params, Route: route},
		Status:                 got.StatusCode, Header: got.Header,
		Options: &openapi3filter.Options{IncludeResponseStatus: true, MultiError: true},
	}
	input.SetBodyBytes(body)
	if err := openapi3filter.ValidateResponse(t.Context(), input); err != nil {
		t.Errorf("%s %s: the answer is not as openapi.yaml says: %v\n%d %s", r.Method, r.URL.Path, err, got.StatusCode, body)
	}
}

// want holds the status, and of a problem its type.
func (r response) want(t testing.TB, status int, problem string) {
	t.Helper()
	if r.StatusCode != status {
		t.Fatalf("%s %s: status %d, want %d: %s", r.Request.Method, r.Request.URL, r.StatusCode, status, r.body)
	}
	if problem == "" {
		return
	}
	var got struct{ Type, Instance string }
	if err := json.Unmarshal([]byte(r.body), &got); err != nil {
		t.Fatalf("%v: %s", err, r.body)
	}
	if got.Type != "urn:orgops:problem:"+problem {
		t.Fatalf("problem %s, want %s: %s", got.Type, problem, r.body)
	}
	if got.Instance == "" || got.Instance != r.Header.Get("X-Request-Id") {
		t.Errorf("instance %q, want the request's id %q", got.Instance, r.Header.Get("X-Request-Id"))
	}
}

// run is what an answer says of a run.
type run struct {
	Run, Kind, Tenant, Label, Parent, State string
	Rows                                    *int64
	Settled                                 int64
	Counts                                  map[string]int64
	CancelledAt                             time.Time `json:"cancelled_at"`
	Submission                              *struct {
		Rows                int64
		Invalid, Duplicates struct{ Rows int64 }
	}
}

func (r response) run(t testing.TB) run {
	t.Helper()
	var got run
	if err := json.Unmarshal([]byte(r.body), &got); err != nil {
		t.Fatalf("%v: %s", err, r.body)
	}
	return got
}

// runs are those of a list.
func (r response) runs(t testing.TB) []run {
	t.Helper()
	var got struct{ Runs []run }
	if err := json.Unmarshal([]byte(r.body), &got); err != nil {
		t.Fatalf("%v: %s", err, r.body)
	}
	return got.Runs
}

// rows are n rows of domain:verify in CSV.
func rows(n int) string {
	var b strings.Builder
	b.WriteString("organization_id,discovery_domain_id\n")
	for i := range n {
		fmt.Fprintf(&b, "org_%016d,ord_%022d\n", i, i)
	}
	return b.String()
}

// submit submits rows as billing, and returns the run.
func (w *world) submit(key, body string) run {
	w.t.Helper()
	got := w.do(call{method: "POST", path: "/v1/runs/" + w.kind, token: billing, key: key, body: body})
	got.want(w.t, http.StatusAccepted, "")
	return got.run(w.t)
}

// wholeRun returns a run that was answered with: all of its rows are committed.
func (w *world) wholeRun(id string) ledger.Run {
	w.t.Helper()
	r, err := w.ledger.Get(w.t.Context(), "", ledger.RunID(id))
	if err != nil || !r.HasAllRows() {
		w.t.Fatalf("run %+v, %v; want it committed", r, err)
	}
	return r
}

// eventually waits until it is so. Where it never is, the test's own time limit
// ends it.
func (w *world) eventually(so func() bool) {
	w.t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !so() {
		select {
		case <-w.t.Context().Done():
			w.t.Fatal(w.t.Context().Err())
		case <-tick.C:
		}
	}
}

// settle settles rows of a run as a worker does.
func (w *world) settle(id, outcome, detail string, items ...int64) {
	w.t.Helper()
	ledgertest.Settle(w.t, w.ledger, id, outcome, detail, items...)
}

// noRuns fails the test if Redis has a run.
func (w *world) noRuns() {
	w.t.Helper()
	if all, err := w.ledger.Runs(context.WithoutCancel(w.t.Context())); err != nil || len(all) > 0 {
		w.t.Errorf("runs %+v, %v; want none", all, err)
	}
}

// manyRows is a number of rows of which the first are stored before the last are read.
const manyRows = ledger.SegmentRows + 1000

// upload is a submission whose body is sent in pieces.
type upload struct {
	w    *world
	rest *io.PipeWriter
	cut  func() // closes the connection

	ended chan struct{} // closed when there is an answer, or an error
	got   response
	err   error
}

// upload begins a submission as billing.
func (w *world) upload(key string) *upload { return w.uploadOf(billing, key) }

// uploadOf begins a submission.
func (w *world) uploadOf(token, key string) *upload {
	w.t.Helper()
	body, rest := io.Pipe()
	u := &upload{w: w, rest: rest, ended: make(chan struct{})}
	u.cut = func() { _ = rest.CloseWithError(io.ErrUnexpectedEOF) }
	r := w.request(call{method: "POST", path: "/v1/runs/" + w.kind, token: token, key: key, reader: body})
	go func() {
		defer close(u.ended)
		defer body.Close()
		var got *http.Response
		if got, u.err = w.client.Do(r); u.err == nil {
			u.got = w.read(r, got)
		}
	}()
	w.t.Cleanup(func() {
		u.cut()
		<-u.ended
	})
	return u
}

// send sends a piece of the body, unless there is an answer already.
func (u *upload) send(text string) *upload {
	_, _ = io.WriteString(u.rest, text)
	return u
}

// stored waits until n segments of a run are stored that is not committed, and returns its id.
func (u *upload) stored(n int) (id string) {
	u.w.t.Helper()
	u.w.eventually(func() bool {
		all, err := u.w.ledger.Runs(u.w.t.Context())
		if err != nil {
			u.w.t.Fatal(err)
		}
		for _, r := range all {
			if run, err := u.w.ledger.Get(u.w.t.Context(), "",
				ledger.RunID(r.ID)); err == nil && run.Staged() && run.Reserved >= n {
				id = string(r.ID)
			}
		}
		return id != ""
	})
	return id
}

// answer ends the body and returns the answer.
func (u *upload) answer() response {
	u.w.t.Helper()
	_ = u.rest.Close()
	<-u.ended
	if u.err != nil {
		u.w.t.Fatal(u.err)
	}
	return u.got
}

// events reads server-sent events.
func events(body io.Reader) *bufio.Scanner {
	s := bufio.NewScanner(body)
	s.Split(func(data []byte, atEOF bool) (int, []byte, error) {
		if i := bytes.Index(data, []byte("\n\n")); i >= 0 {
			return i + 2, data[:i], nil
		}
		if atEOF {
			return len(data), nil, nil
		}
		return 0, nil, nil
	})
	return s
}

func query(pairs ...string) string {
	values := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		values.Set(pairs[i], pairs[i+1])
	}
	return "?" + values.Encode()
}

// newIntake returns an intake that does not wait two seconds before it reads a run back, which
// it does on a Cluster.
func newIntake(rdb redis.Cmdable, l *ledger.Ledger) intake.Intake {
	i := intake.New(rdb, l)
	i.VerifyAfter = 10 * time.Millisecond
	return i
}
