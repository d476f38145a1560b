package httpapi_test

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"orgops/internal/httpapi"
	"orgops/internal/ledger"
)

// TestRefusedAfterTheFirstRows refuses bodies of which rows are stored already: nothing is
// left of them, and their key is free.
func TestRefusedAfterTheFirstRows(t *testing.T) {
	const n = manyRows + 1000 // more than what gunzip holds back
	many := rows(n)
	whole := zipped(t, many)
	tests := []struct {
		name        string
		first, rest string
		status      int
		problem     string
	}{
		{"a bad row", many, "org_1,\n", 422, "bad-rows"},
		{"too many rows", many, strings.Repeat("org_1,ord_1\n", 1001), 413, "too-large"},
		{"too many bytes", many, strings.Repeat("x", 100_000), 413, "too-large"},
		{"gzip that is cut off", whole[:len(whole)-20], "", 400, "bad-request"},
		{"gzip with a wrong checksum", whole[:len(whole)-8], "12345678", 400, "bad-request"},
		{"gzip that expands", zipped(t, many+strings.Repeat("\n", 50_000)),
			zipped(t, strings.Repeat("\n", 50_000)), 413, "too-large"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, func(c *httpapi.Config) {
				c.Limits.MaxBytes, c.Limits.MaxRows = int64(len(many))+99_000, n+1000
			})
			u := w.upload("k").send(test.first)
			u.stored(1)
			u.send(test.rest).answer().want(t, test.status, test.problem)
			w.noRuns()
			if r := w.wholeRun(w.submit("k", rows(3)).Run); r.Total() != 3 {
				t.Errorf("run %+v; want 3 rows", r)
			}
		})
	}
}

// TestCutOff has the client go away in the middle of a body.
func TestCutOff(t *testing.T) {
	w := newWorld(t)
	u := w.upload("k").send(rows(manyRows))
	id := u.stored(1)
	u.cut()
	w.eventually(func() bool {
		_, err := w.ledger.Get(t.Context(), "", ledger.RunID(id))
		return err != nil
	})
	w.noRuns()
	w.eventually(func() bool { return strings.Contains(w.log.String(), "status=400") })
	if r := w.wholeRun(w.submit("k", rows(manyRows)).Run); string(r.ID) != id || r.Total() != manyRows {
		t.Errorf("run %+v; want %s with %d rows", r, id, manyRows)
	}
}

// TestSlowBodies checks that an upload ends when nothing more of it comes, before rows are stored
// and after, when all of it takes too long, and below 10 KiB/s, although no pause is long.
func TestSlowBodies(t *testing.T) {
	const header = "organization_id,discovery_domain_id\n"
	for name, c := range map[string]struct {
		limits httpapi.Limits
		first  string
		more   string // is sent again and again
	}{
		"nothing more, no rows stored": {httpapi.Limits{Idle: 100 * time.Millisecond}, rows(2), ""},
		"nothing more, rows stored":    {httpapi.Limits{Idle: 100 * time.Millisecond}, rows(manyRows), ""},
		"all of it":                    {httpapi.Limits{Upload: 200 * time.Millisecond}, rows(manyRows), "org_1,ord_1\n"},
		"its rate":                     {httpapi.Limits{Idle: 200 * time.Millisecond}, header, "org_1,ord_1\n"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(config *httpapi.Config) {
				config.Limits.Idle, config.Limits.Upload = cmp.Or(c.limits.Idle, config.Limits.Idle), c.limits.Upload
			})
			if name != "nothing more, no rows stored" {
				w.overTLS(newCertificate(t)) // HTTP/2: the answer reaches a client that is still sending
			}
			u := w.upload("k").send(c.first)
			for answered := false; !answered; {
				select {
				case <-u.ended:
					answered = true
				case <-time.After(5 * time.Millisecond):
					if c.more != "" {
						u.send(c.more)
					}
				}
			}
			if u.err != nil {
				t.Fatal(u.err)
			}
			u.got.want(t, 408, "body-timeout")
			w.noRuns()
		})
	}
}

// TestStoringIsNotBoundByPauses holds that the pauses which are allowed to a client are no limit on
// storing rows.
func TestStoringIsNotBoundByPauses(t *testing.T) {
	const pause = 3 * time.Second // longer than a busy machine takes to read a body
	start := func(t *testing.T) (w *world, hold func(head int) (release func())) {
		t.Parallel()
		hook := &commands{}
		w = newWorld(t, hook.of(t), func(c *httpapi.Config) { c.Limits.Idle, c.Limits.Request = pause, pause })
		return w, func(head int) func() {
			held, release := make(chan struct{}), make(chan struct{})
			hook.set(func(n int, _ string) error {
				if n < head { // a command of the request's head
					return nil
				}
				select {
				case held <- struct{}{}:
					<-release
				case <-release:
				}
				return nil
			})
			return func() {
				<-held
				time.Sleep(pause + pause/2) // for a deadline to pass
				close(release)
			}
		}
	}
	t.Run("of a body", func(t *testing.T) {
		w, hold := start(t)
		w.overTLS(newCertificate(t)) // HTTP/2
		u := w.upload("k").send(rows(manyRows))
		u.stored(1)
		release := hold(0)
		u.send(rows(2 * manyRows)[len(rows(manyRows)):])
		release()
		u.send("org_1,ord_1\n").answer().want(t, 202, "")
	})
	t.Run("of a retry", func(t *testing.T) {
		w, hold := start(t)
		w.parent()
		release := hold(20)
		answered := make(chan response, 1)
		go func() {
			answered <- w.do(call{method: "POST", path: "/v1/runs/parent/retry", token: billing, key: "k"})
		}()
		release()
		got := <-answered
		got.want(t, 202, "")
	})
}

// TestRefusedWhileItIsSent has a client that reads the answer when it has sent all of the body,
// which is refused at its first line.
func TestRefusedWhileItIsSent(t *testing.T) {
	w := newWorld(t)
	body := "colour\n" + strings.Repeat("red\n", 5_000_000)
	// Before the connection is opened: its header must arrive within five seconds.
	request := fmt.Sprintf("POST /v1/runs/domain:verify HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n"+
		"Idempotency-Key: k\r\nContent-Length: %d\r\n\r\n%s", billing, len(body), body)
	c, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(w.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	got, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	if got.StatusCode != 422 {
		t.Errorf("status %d, want 422", got.StatusCode)
	}
}

// TestUploads has a caller begin forty slow uploads: it gets six of the sixteen places, and one of
// another caller is accepted.
func TestUploads(t *testing.T) {
	const own, begun = 6, 40
	registry := prometheus.NewRegistry()
	w := newWorld(t, func(c *httpapi.Config) { c.Registry = registry })
	all := map[*upload]bool{}
	for i := range begun {
		u := w.upload(fmt.Sprint("k", i))
		go u.send(rows(2))
		all[u] = true
	}
	w.eventually(func() bool {
		for u := range all {
			select {
			case <-u.ended:
				if u.err != nil {
					t.Fatal(u.err)
				}
				u.got.want(t, 429, "busy")
				delete(all, u)
			default:
			}
		}
		return len(all) == own
	})
	got := w.do(call{method: "POST", path: "/v1/runs/domain:verify", token: billing, key: "another", body: rows(1)})
	got.want(t, 429, "busy")
	if got.Header.Get("Retry-After") != "5" || !strings.Contains(got.body, "6 uploads in progress") {
		t.Errorf("Retry-After %q, %s; want 5, and the number", got.Header.Get("Retry-After"), got.body)
	}
	w.do(call{method: "POST", path: "/v1/runs/domain:verify", token: crm, key: "k", body: rows(1)}).want(t, 202, "")
	w.eventually(func() bool { return strings.Contains(w.log.String(), "user=billing problem=busy limit=uploads") })
	want := fmt.Sprintf(`# HELP orgops_intake_uploads Uploads and retries that an intake receives at present.
# TYPE orgops_intake_uploads gauge
orgops_intake_uploads %d
# HELP orgops_intake_refused_total Requests that an intake refused because a limit was reached.
# TYPE orgops_intake_refused_total counter
orgops_intake_refused_total{limit="uploads"} %d
# HELP orgops_intake_rows_total Rows that an intake accepted, of repeated requests too.
# TYPE orgops_intake_rows_total counter
orgops_intake_rows_total 1
`, own, begun-own+1)
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "orgops_intake_uploads",
		"orgops_intake_refused_total", "orgops_intake_rows_total"); err != nil {
		t.Error(err)
	}
	for u := range all {
		u.answer().want(t, 202, "")
	}
	w.submit("another", rows(1))
	w.eventually(func() bool { // a request is counted after its answer
		n, err := testutil.GatherAndCount(registry, "orgops_intake_requests_total")
		return err == nil && n == 2 // 202 and 429
	})
}

// TestSlowestUploadEndsForANewCaller: slow uploads that hold all places do not keep out a caller
// that has none. One of them is ended, and may be repeated; the other one continues.
func TestSlowestUploadEndsForANewCaller(t *testing.T) {
	registry := prometheus.NewRegistry()
	w := newWorld(t, func(c *httpapi.Config) {
		c.Limits.Uploads, c.Limits.Slow, c.Registry = 2, time.Nanosecond, registry
	})
	held := map[*upload]bool{}
	for token, key := range map[string]string{billing: "a", crm: "b"} {
		u := w.uploadOf(token, key)
		go u.send(rows(2))
		held[u] = true
	}
	w.eventually(func() bool {
		return testutil.GatherAndCompare(registry, strings.NewReader(`# HELP orgops_intake_uploads Uploads and retries that an intake receives at present.
# TYPE orgops_intake_uploads gauge
orgops_intake_uploads 2
`), "orgops_intake_uploads") == nil
	})
	// An upload that has its place a moment ago may not be waited for yet: it is not the slowest then.
	w.eventually(func() bool {
		got := w.do(call{method: "POST", path: "/v1/runs/domain:verify", token: few, key: "k",
			body: "organization_id,discovery_domain_id\norg_1,ord_1\n"})
		return got.StatusCode == 202
	})
	w.eventually(func() bool {
		for u := range held {
			select {
			case <-u.ended:
				if u.err != nil {
					t.Fatal(u.err)
				}
				u.got.want(t, 429, "busy")
				if !strings.Contains(u.got.body, "which was the slowest") || u.got.Header.Get("Retry-After") != "5" {
					t.Errorf("the answer does not say why, or when to repeat it: %s", u.got.body)
				}
				delete(held, u)
			default:
			}
		}
		return len(held) == 1
	})
	for u := range held {
		u.answer().want(t, 202, "")
	}
}

// TestDownloads: the downloads that are sent at a time are bounded.
func TestDownloads(t *testing.T) {
	hook := &commands{}
	w := newWorld(t, hook.of(t), func(c *httpapi.Config) { c.Limits.Downloads = 1 })
	id := w.submit("k", rows(1)).Run
	path := "/v1/runs/" + id + "/rows"
	held, release := make(chan struct{}), make(chan struct{})
	end := sync.OnceFunc(func() { close(release) })
	t.Cleanup(end)
	hook.set(func(_ int, name string) error {
		if name == "evalsha" || name == "eval" { // that reads rows
			held <- struct{}{}
			<-release
		}
		return nil
	})
	answered := make(chan response, 1)
	go func() { answered <- w.do(call{path: path, token: billing}) }()
	<-held
	hook.heal()
	w.do(call{path: path, token: billing}).want(t, 429, "busy")
	end()
	got := <-answered
	got.want(t, 200, "")
	w.do(call{path: path, token: billing}).want(t, 200, "")
}
