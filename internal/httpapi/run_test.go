package httpapi_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"orgops/internal/httpapi"
	"orgops/internal/ledger"
	"orgops/internal/ledgertest"
	"orgops/internal/web"
	"orgops/tasks"
)

func TestList(t *testing.T) {
	w := newWorld(t)
	for i := range 7 {
		caller := []string{"billing", "crm"}[i%2]
		ledgertest.Create(t, w.ledger, ledger.NewRun{ID: ledger.RunID(fmt.Sprint("run", i)),
			Description: ledger.Description{Caller: caller}})
	}
	var got []string
	pages := 0
	for path := "/v1/runs?limit=2"; path != ""; pages++ {
		answer := w.do(call{path: path, token: billing})
		answer.want(t, 200, "")
		var page struct {
			Runs []run
			Next string
		}
		if err := json.Unmarshal([]byte(answer.body), &page); err != nil {
			t.Fatal(err)
		}
		for _, r := range page.Runs {
			got = append(got, r.Run)
		}
		path = page.Next
	}
	if diff := cmp.Diff([]string{"run6", "run4", "run2", "run0"}, got); diff != "" || pages != 2 {
		t.Errorf("%d pages, want 2; runs (-want +got):\n%s", pages, diff)
	}
	// No worker lives, so all are held.
	for query, want := range map[string]int{
		"?state=open": 4, "?state=attention": 4, "?state=attention&tenant=default": 4, "?state=ended": 0,
		"?since=1h&kind=" + tasks.TypeVerify: 4, "?until=2000-01-01": 0, "?label=x": 0} {
		answer := w.do(call{path: "/v1/runs" + query, token: billing})
		answer.want(t, 200, "")
		if got := strings.Count(answer.body, `"state_text":`); got != want || strings.Contains(answer.body, `"crm"`) {
			t.Errorf("%s: %d runs, want %d: %s", query, got, want, answer.body)
		}
	}
	answer := w.do(call{path: "/v1/runs?limit=2&state=open", token: billing})
	if !strings.Contains(answer.body, "state=open") {
		t.Errorf("the next page is not filtered: %s", answer.body)
	}
	for _, bad := range []string{"?state=x", "?since=x", "?caller=billing",
		"?limit=0", "?limit=501", "?limit=x", "?after=x", "?after=MTIz", "?page=2"} {
		w.do(call{path: "/v1/runs" + bad, token: billing}).want(t, 400, "bad-request")
	}
	for token, tenant := range map[string]string{billing: "none", crm: "default"} {
		w.do(call{path: "/v1/runs?tenant=" + tenant, token: token}).want(t, 404, "not-found")
	}
}

// TestRunOfWhicheverTenant finds a run by its id in the only tenant of the caller that has it, and
// lists several. None of them is changed unless it is named.
func TestRunOfWhicheverTenant(t *testing.T) {
	w := newWorld(t)
	submit := func(tenant ledger.Tenant, id ledger.RunID) {
		n := ledger.NewRun{ID: id, Tenant: tenant, Description: ledger.Description{Caller: "billing"}}
		ledgertest.Submit(t, w.ledger, n, `{"organization_id":"org_1","discovery_domain_id":"ord_1"}`)
	}
	submit("acme", "one")
	submit("acme", "both")
	submit("other", "both")
	for _, c := range []struct {
		method, path string
		status       int
		has          string
	}{
		{"GET", "/v1/runs/one", 200, `"tenant":"acme"`},
		{"GET", "/v1/runs/both", 409, `Several tenants have run \"both\": acme, other.`},
		{"POST", "/v1/runs/both/cancel", 409, "several-tenants"},
		{"GET", "/v1/runs/both?tenant=other", 200, `"tenant":"other"`},
		{"GET", "/v1/runs/both/rows?tenant=other", 200, "org_1"},
		{"GET", "/v1/runs/one?tenant=other", 404, "You have no run"},
		{"GET", "/v1/runs/one?tenant=nobody", 404, `There is no tenant \"nobody\"`},
		{"GET", "/v1/runs/one?tenant=No", 400, "The parameter tenant"},
		{"POST", "/v1/runs/both/cancel?tenant=other", 200, `"tenant":"other"`},
	} {
		got := w.do(call{method: c.method, path: c.path, token: billing})
		if got.StatusCode != c.status || !strings.Contains(got.body, c.has) {
			t.Errorf("%s %s: %d %s, want %d and %s", c.method, c.path, got.StatusCode, got.body, c.status, c.has)
		}
	}
	for tenant, want := range map[ledger.Tenant]bool{"acme": false, "other": true} {
		run, err := w.ledger.Run(t.Context(), tenant, "both")
		if err != nil || run.Cancelled != want {
			t.Errorf("tenant %s: cancelled %v, %v; want %v", tenant, run.Cancelled, err, want)
		}
	}
}

func TestShow(t *testing.T) {
	w := newWorld(t)
	id := w.submit("k", rows(2)).Run
	w.wholeRun(id)
	w.settle(id, "refused", "no such domain", 1)
	got := w.do(call{path: "/v1/runs/" + id, token: billing})
	got.want(t, 200, "")
	r := got.run(t)
	if r.State != "open" || *r.Rows != 2 || r.Settled != 1 || r.Counts["refused"] != 1 {
		t.Errorf("run %+v", r)
	}
	if err := ledgertest.Control(t.Context(), w.ledger, (*ledger.Ledger).Pause, ledger.RunID(id)); err != nil {
		t.Fatal(err)
	}
	if r := w.do(call{path: "/v1/runs/" + id, token: billing}).run(t); r.State != "paused" {
		t.Errorf("state %s, want paused", r.State)
	}
	for _, path := range []string{"none", "a%2Fb", strings.Repeat("x", 65), "%00", "..%2f..%2fx"} {
		w.do(call{path: "/v1/runs/" + path, token: billing}).want(t, 404, "not-found")
	}
	w.do(call{path: "/v1/runs/" + id + "?x=1", token: billing}).want(t, 400, "bad-request")
}

func TestCancel(t *testing.T) {
	w := newWorld(t)
	id := w.submit("k", rows(3)).Run
	w.wholeRun(id)
	w.settle(id, "done", "", 0)
	for range 2 { // the second time it changes nothing
		got := w.do(call{method: "POST", path: "/v1/runs/" + id + "/cancel", token: billing})
		got.want(t, 200, "")
		if r := got.run(t); r.CancelledAt.IsZero() || r.State != "ended" || r.Counts["cancelled"] != 2 ||
			r.Counts["done"] != 1 {
			t.Errorf("run %+v, want 2 rows cancelled", r)
		}
	}
}

// TestRows checks the forms of all rows and of the failed ones, the outcomes, and that a caller
// has rows of its own runs alone. settledTimes matches the time at which a row was settled, behind
// its number, which ends the first group.
var settledTimes = regexp.MustCompile(`(,\d,|"orgops_item":\d,"orgops_settled_at":")20\d\d-\d\d-\d\dT[\d:]+Z`)

func TestRows(t *testing.T) {
	w := newWorld(t)
	csv := w.submit("csv", rows(3)).Run
	const row = `{"organization_id":"org_0000000000000000","discovery_domain_id":"ord_0000000000000000000000"`
	jsonl := w.submit("jsonl", row+"}").Run
	well := w.submit("well", `{"organization_id":"org_1","discovery_domain_id":"ord_1"}`).Run
	w.settle(csv, "done", "", 0)
	w.settle(csv, "refused", `=cmd|' /C calc'!A0`, 2)
	w.settle(jsonl, "refused", `=cmd|' /C calc'!A0`, 0)
	const (
		header = "organization_id,discovery_domain_id,orgops_outcome,orgops_error,orgops_item,orgops_settled_at,orgops_at,orgops_template," +
			"domain,host,value,found,advice,mistake\n"
		first  = "org_0000000000000000,ord_0000000000000000000000,done,,0,AT,,,,,,,,\n"
		second = "org_0000000000000001,ord_0000000000000000000001,open,,1,,,,,,,,,\n"
		third  = "org_0000000000000002,ord_0000000000000000000002,refused,'=cmd|' /C calc'!A0,2,AT,,,,,,,,\n"
		failed = "organization_id,discovery_domain_id,orgops_outcome,orgops_error,domain,host,value,found,advice,mistake\n" +
			"org_0000000000000002,ord_0000000000000000000002,refused,'=cmd|' /C calc'!A0,,,,,,\n"
		failedJSON = `{"organization_id":"org_0000000000000002","discovery_domain_id":"ord_0000000000000000000002",` +
			`"orgops_outcome":"refused","orgops_error":"=cmd|' /C calc'!A0"}` + "\n"
		why     = `,"orgops_outcome":"refused","orgops_error":"=cmd|' /C calc'!A0"`
		asCSV   = "text/csv; charset=utf-8; header=present"
		asJSON  = "application/jsonl"
		problem = "application/problem+json"
	)
	for _, test := range []struct {
		name, path, accept string
		status             int
		mediaType, body    string
	}{
		{"as they came", csv + "/rows", "", 200, asCSV, header + first + second + third},
		{"some outcomes", csv + "/rows?outcomes=done,open", "", 200, asCSV, header + first + second},
		{"failed ones", csv + "/rows?outcomes=refused", "", 200, asCSV, header + third},
		{"as JSON", csv + "/rows?outcomes=done", asJSON, 200, asJSON, row + `,"orgops_outcome":"done","orgops_item":0,"orgops_settled_at":"AT"}` + "\n"},
		{"JSON as it came", jsonl + "/rows", "*/*", 200, asJSON, row + why + `,"orgops_item":0,"orgops_settled_at":"AT"}` + "\n"},
		{"JSON as CSV", jsonl + "/rows", "text/csv", 200, asCSV,
			"organization_id,discovery_domain_id,verification_host,verification_txt,use_for_organization_discovery," +
				strings.TrimPrefix(header, "organization_id,discovery_domain_id,") +
				"org_0000000000000000,ord_0000000000000000000000,,,,refused,'=cmd|' /C calc'!A0,0,AT,,,,,,,,\n"},
		{"neither", csv + "/rows", "image/png", 406, problem, ""},
		{"unknown outcome", csv + "/rows?outcomes=done,finished", "", 400, problem, ""},
		{"unknown run", "none/rows", "", 404, problem, ""},
		{"failed as they came", csv + "/failed", "", 200, asCSV, failed},
		{"failed, anything accepted", csv + "/failed", "*/*", 200, asCSV, failed},
		{"failed, both accepted", csv + "/failed", "application/jsonl, text/csv", 200, asCSV, failed},
		{"failed as JSON", csv + "/failed", asJSON, 200, asJSON, failedJSON},
		{"failed as older JSON", csv + "/failed", "text/html, application/x-ndjson;q=0.5", 200, "application/x-ndjson",
			failedJSON},
		{"failed, CSV refused", csv + "/failed", "text/csv;q=0, */*", 200, asCSV, failed},
		{"failed JSON as it came", jsonl + "/failed", "", 200, asJSON, row + why + "}\n"},
		{"failed JSON as CSV", jsonl + "/failed", "text/csv", 406, problem, ""},
		{"failed, neither", csv + "/failed", "image/png", 406, problem, ""},
		{"no failed ones", well + "/failed", "", 200, asJSON, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			header := http.Header{}
			if test.accept != "" {
				header.Set("Accept", test.accept)
			}
			got := w.do(call{path: "/v1/runs/" + test.path, token: billing, header: header})
			got.want(t, test.status, map[int]string{400: "bad-request", 404: "not-found", 406: "not-acceptable"}[test.status])
			body := settledTimes.ReplaceAllString(got.body, "${1}AT")
			if got.Header.Get("Content-Type") != test.mediaType || (test.status == 200 && body != test.body) {
				t.Errorf("%s %q\nwant %s %q", got.Header.Get("Content-Type"), got.body, test.mediaType, test.body)
			}
		})
	}
	w.do(call{path: "/v1/runs/" + csv + "/rows", token: crm}).want(t, 404, "not-found")
	if r := w.submit("again", failed); w.wholeRun(r.Run).Total() != 1 {
		t.Errorf("run %+v of the failed rows, want a row", r)
	}
}

func TestRetry(t *testing.T) {
	w := newWorld(t)
	id := w.submit("k", rows(4)).Run
	w.wholeRun(id)
	retry := func(key, more string) response {
		return w.do(call{method: "POST", path: "/v1/runs/" + id + "/retry" + more, token: billing, key: key})
	}
	retry("r1", "").want(t, 409, "state") // it has not ended
	w.settle(id, "done", "", 0)
	w.settle(id, "expired", "not there", 1, 2)
	w.settle(id, "refused", "no such domain", 3)
	retry("", "").want(t, 400, "bad-request")
	retry("r1", "?outcomes=invalid").want(t, 400, "bad-request")
	retry("r1", "?colour=red").want(t, 400, "bad-request")
	retry("r1", "?outcomes=failed").want(t, 409, "state") // there are none
	retry("k", "").want(t, 422, "key-reused")

	got := retry("r1", "?outcomes=expired&label=again")
	got.want(t, 202, "")
	child := got.run(t)
	if child.Parent != id || child.Label != "again" || got.Header.Get("Location") != "/v1/runs/"+child.Run {
		t.Errorf("run %+v at %s, want a child of %s", child, got.Header.Get("Location"), id)
	}
	if r := w.wholeRun(child.Run); r.Total() != 2 || r.Caller != "billing" {
		t.Errorf("run %+v, want billing's with 2 rows", r)
	}
	again := retry("r1", "?outcomes=expired&label=again")
	again.want(t, 202, "")
	if again.run(t).Run != child.Run {
		t.Errorf("the same key is run %s, want %s", again.run(t).Run, child.Run)
	}
	retry("r2", "?outcomes=expired").want(t, 409, "state") // the child has not ended
	w.settle(child.Run, "done", "", 0, 1)
	retry("r1", "?outcomes=expired&label=again").want(t, 200, "")
	for _, differs := range []string{"?outcomes=refused&label=again", "?outcomes=expired", "?outcomes=expired&label=other",
		"?outcomes=expired&label=again&not_before=2026-01-02T03:04:05Z"} {
		retry("r1", differs).want(t, 422, "key-reused")
	}
	later := query("not_before", time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
	got = retry("r3", later)
	got.want(t, 202, "")
	child = got.run(t)
	w.do(call{method: "POST", path: "/v1/runs/" + child.Run + "/cancel", token: billing}).want(t, 200, "")
	got = retry("r3", later)
	got.want(t, 200, "")
	if again := got.run(t); again.Run != child.Run {
		t.Errorf("the same key after a cancel is run %s, want %s", again.Run, child.Run)
	}
}

func TestEvents(t *testing.T) {
	w := newWorld(t)
	id := w.submit("k", rows(2)).Run
	w.wholeRun(id)
	r := w.request(call{path: "/v1/runs/" + id + "/events", token: billing})
	got, err := w.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	if got.StatusCode != 200 || got.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("%d %s", got.StatusCode, got.Header.Get("Content-Type"))
	}
	var ids []string
	stream := events(got.Body)
	next := func() (settled int64, beats int) {
		t.Helper()
		for stream.Scan() {
			text := stream.Text()
			if strings.HasPrefix(text, ":") {
				if beats++; beats == 2 {
					return -1, beats
				}
				continue
			}
			lines := strings.Split(text, "\n")
			if len(lines) != 3 || lines[0] != "event: run" || !strings.HasPrefix(lines[1], "id: ") ||
				!strings.HasPrefix(lines[2], "data: ") {
				t.Fatalf("event %q", text)
			}
			ids = append(ids, strings.TrimPrefix(lines[1], "id: "))
			var told run
			if err := json.Unmarshal([]byte(strings.TrimPrefix(lines[2], "data: ")), &told); err != nil {
				t.Fatal(err)
			}
			return told.Settled, beats
		}
		if err := stream.Err(); err != nil {
			t.Fatal(err)
		}
		return -1, beats
	}
	if n, _ := next(); n != 0 {
		t.Fatalf("first %d settled, want 0", n)
	}
	if _, beats := next(); beats != 2 {
		t.Fatalf("%d comments while nothing changed, want 2", beats)
	}
	// changed returns the next event, however many comments come before; -1: the stream has ended.
	changed := func() int64 {
		t.Helper()
		for range 1000 {
			if n, beats := next(); beats < 2 {
				return n
			}
		}
		t.Fatal("no change after 2,000 comments")
		return 0
	}
	w.settle(id, "done", "", 0)
	if n := changed(); n != 1 {
		t.Fatalf("then %d settled, want 1", n)
	}
	w.settle(id, "done", "", 1)
	if n := changed(); n != 2 {
		t.Fatalf("at last %d settled, want 2", n)
	}
	n := changed()
	if n == 2 { // the end was not stored yet when all rows were settled
		n = changed()
	}
	if n != -1 {
		t.Fatal("the stream continues after the run's end")
	}

	last := http.Header{"Last-Event-Id": {ids[len(ids)-1]}}
	w.do(call{path: "/v1/runs/" + id + "/events", token: billing, header: last}).want(t, 204, "")
	for _, known := range []string{ids[0], "garbage", ""} {
		again := w.do(call{path: "/v1/runs/" + id + "/events", token: billing, header: http.Header{"Last-Event-Id": {known}}})
		again.want(t, 200, "")
		if !strings.Contains(again.body, ids[len(ids)-1]) {
			t.Errorf("after event %q comes %q, want the end", known, again.body)
		}
	}
}

// TestRunByKey finds a run by the key of its request, and that of no other caller.
func TestRunByKey(t *testing.T) {
	w := newWorld(t)
	id := w.submit("nightly-1", rows(1)).Run
	got := w.do(call{path: "/v1/runs/nightly-1", token: billing})
	got.want(t, 200, "")
	if got.run(t).Run != id {
		t.Errorf("run %s, want %s", got.run(t).Run, id)
	}
	w.do(call{path: "/v1/runs/nightly-1/rows", token: billing}).want(t, 200, "")
	w.do(call{path: "/v1/runs/nightly-1", token: crm}).want(t, 404, "not-found")
	w.do(call{path: "/v1/runs/nightly-2", token: billing}).want(t, 404, "not-found")
	w.eventually(func() bool { return strings.Count(w.log.String(), "msg=request ") == 5 })
	if text := w.log.String(); strings.Contains(text, "nightly") {
		t.Errorf("a key is in the log:\n%s", text)
	}
}

// TestStreamEndsWithAccess ends the stream of a caller whose entry is deleted.
func TestStreamEndsWithAccess(t *testing.T) {
	file := filepath.Join(t.TempDir(), "access.yaml")
	if err := os.WriteFile(file, []byte(accessFile), 0o600); err != nil {
		t.Fatal(err)
	}
	all, err := web.ReadAccess(file, slog.New(slog.DiscardHandler), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, func(c *httpapi.Config) { c.Access = all })
	id := w.submit("k", rows(1)).Run
	open, err := w.client.Do(w.request(call{path: "/v1/runs/" + id + "/events", token: billing}))
	if err != nil {
		t.Fatal(err)
	}
	defer open.Body.Close()
	others := accessFile[strings.Index(accessFile, "- {name: crm"):]
	if err := os.WriteFile(file, []byte(others), 0o600); err != nil {
		t.Fatal(err)
	}
	for stream := events(open.Body); stream.Scan(); { // to its end
	}
	w.do(call{path: "/v1/runs", token: billing}).want(t, 401, "unauthenticated")
}

func TestStreams(t *testing.T) {
	w := newWorld(t, func(c *httpapi.Config) { c.Limits.Streams = 1 })
	id := w.submit("k", rows(1)).Run
	open, err := w.client.Do(w.request(call{path: "/v1/runs/" + id + "/events", token: billing}))
	if err != nil {
		t.Fatal(err)
	}
	defer open.Body.Close()
	w.do(call{path: "/v1/runs/" + id + "/events", token: billing}).want(t, 429, "busy")
	w.stop() // ends the stream; it would wait for ever otherwise
	for stream := events(open.Body); stream.Scan(); {
	}
}
