package httpapi_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"orgops/internal/httpapi"
	"orgops/internal/ledger"
	"orgops/internal/tenant"
	"orgops/tasks"
)

func zipped(t testing.TB, text string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := io.WriteString(z, text); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestSubmitNotBefore: a postponed run says so, and a time that cannot be read is refused.
func TestSubmitNotBefore(t *testing.T) {
	w := newWorld(t)
	later := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	path := "/v1/runs/domain:verify" + query("not_before", later.Format(time.RFC3339))
	got := w.do(call{method: "POST", path: path, token: billing, key: "k1", body: rows(1)})
	got.want(t, http.StatusAccepted, "")
	var told struct {
		NotBefore time.Time `json:"not_before"`
	}
	if err := json.Unmarshal([]byte(got.body), &told); err != nil || !told.NotBefore.Equal(later) {
		t.Errorf("%s, %v; want not_before %v", got.body, err, later)
	}
	w.do(call{method: "POST", path: "/v1/runs/domain:verify" + query("not_before", "tonight"), token: billing, key: "k2",
		body: rows(1)}).want(t, http.StatusBadRequest, "bad-request")
}

func TestSubmit(t *testing.T) {
	const jsonl = `{"organization_id":"org_0000000000000000","discovery_domain_id":"ord_0000000000000000000000"}` + "\n"
	tests := []struct {
		name   string
		body   string
		header http.Header
	}{
		{"CSV", rows(1), http.Header{"Content-Type": {"text/csv; charset=utf-8"}}},
		{"JSON Lines", jsonl, http.Header{"Content-Type": {"application/jsonl"}}},
		{"no type", rows(1), nil},
		{"as curl sends it", rows(1), http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}},
		{"a gzipped file", zipped(t, rows(1)), http.Header{"Content-Type": {"application/gzip"}}},
		{"a gzipped transfer", zipped(t, rows(1)), http.Header{"Content-Encoding": {"gzip"}}},
		{"a gzipped file in a gzipped transfer", zipped(t, zipped(t, rows(1))), http.Header{"Content-Encoding": {"gzip"}}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			got := w.do(call{method: "POST", path: "/v1/runs/domain:verify" + query("label", "spring"), token: billing,
				key: "k1", body: test.body, header: test.header})
			got.want(t, http.StatusAccepted, "")
			told := got.run(t)
			if got.Header.Get("Location") != "/v1/runs/"+told.Run || told.Label != "spring" || told.Tenant != "default" ||
				told.State != "open" || told.Rows == nil || *told.Rows != 1 || told.Submission.Rows != 1 {
				t.Errorf("Location %q, run %+v", got.Header.Get("Location"), told)
			}
			r := w.wholeRun(told.Run)
			if r.Total() != 1 || r.Caller != "billing" {
				t.Errorf("run %+v; want a row, billing's", r)
			}
		})
	}
}

func TestSubmitRefuses(t *testing.T) {
	big := rows(1) + strings.Repeat("x", 80_000)
	tests := []struct {
		name    string
		call    call
		status  int
		problem string
		detail  string
	}{
		{"an unknown kind", call{path: "/v1/runs/domain:delete", key: "k"}, 404, "not-found", "domain:verify"},
		{"no key", call{path: "/v1/runs/domain:verify"}, 400, "bad-request", "Idempotency-Key"},
		{"a key with blanks", call{path: "/v1/runs/domain:verify", key: "a b"}, 400, "bad-request", "Idempotency-Key"},
		{"a key too long", call{path: "/v1/runs/domain:verify", key: strings.Repeat("k", 65)}, 400, "bad-request", "64"},
		{"an unknown parameter", call{path: "/v1/runs/domain:verify?skip_inavlid=1", key: "k"}, 400,
			"bad-request", "skip_invalid"},
		{"a parameter given twice", call{path: "/v1/runs/domain:verify?label=a&label=b", key: "k"}, 400,
			"bad-request", "more than once"},
		{"a query that is none", call{path: "/v1/runs/domain:verify?label=%zz", key: "k"}, 400, "bad-request", "query"},
		{"a flag that is none", call{path: "/v1/runs/domain:verify?skip_invalid=yes", key: "k"}, 400,
			"bad-request", "1 or 0"},
		{"a tenant that is none", call{path: "/v1/runs/domain:verify?tenant=A%20B", key: "k"}, 400, "bad-request", "tenant"},
		{"half a second", call{path: "/v1/runs/domain:verify?give_up=0.5s", key: "k"}, 400, "bad-request", "whole seconds"},
		{"a second", call{path: "/v1/runs/domain:verify?give_up=1s", key: "k"}, 400, "bad-request", "at least 10s"},
		{"give_up of another kind", call{path: "/v1/runs/clients:remove?give_up=1h", key: "k"}, 400,
			"bad-request", "domain:verify"},
		{"a long label", call{path: "/v1/runs/domain:verify?label=" + strings.Repeat("x", 201), key: "k"},
			400, "bad-request", "200"},
		{"a column that rows are made of", call{path: "/v1/runs/domain:verify?ignore_columns=organization_id", key: "k",
			body: rows(1)}, 422, "bad-input", "cannot be ignored"},
		{
			"a form", call{path: "/v1/runs/domain:verify", key: "k",
				header: http.Header{"Content-Type": {"multipart/form-data; boundary=x"}}}, 415, "unsupported-type", "--data-binary",
		},
		{"a picture", call{path: "/v1/runs/domain:verify", key: "k", header: http.Header{"Content-Type": {"image/png"}}}, 415,
			"unsupported-type", "text/csv"},
		{"a type that is none", call{path: "/v1/runs/domain:verify", key: "k", header: http.Header{"Content-Type": {"; ;"}}},
			415, "unsupported-type", ""},
		{
			"another charset", call{path: "/v1/runs/domain:verify", key: "k",
				header: http.Header{"Content-Type": {"text/csv; charset=latin1"}}}, 415, "unsupported-type", "UTF-8",
		},
		{
			"another coding", call{path: "/v1/runs/domain:verify", key: "k", body: rows(1),
				header: http.Header{"Content-Encoding": {"br"}}}, 415, "unsupported-type", "gzip",
		},
		{"gzip that is none", call{path: "/v1/runs/domain:verify", key: "k", body: rows(1),
			header: http.Header{"Content-Encoding": {"gzip"}}}, 400, "bad-request", "is not gzipped"},
		{"gzip that is cut off", call{path: "/v1/runs/domain:verify", key: "k", body: zipped(t, rows(9))[:40]}, 400,
			"bad-request", "cut off"},
		{
			"gzip that is broken", call{path: "/v1/runs/domain:verify", key: "k",
				body: zipped(t, rows(9))[:60] + strings.Repeat("x", 60)}, 400, "bad-request", "",
		},
		{"gzip in gzip", call{path: "/v1/runs/domain:verify", key: "k", body: zipped(t, zipped(t, rows(1)))}, 400,
			"bad-request", "more than once"},
		{"no rows", call{path: "/v1/runs/domain:verify", key: "k", body: rows(0)}, 422, "bad-input", "no rows"},
		{"nothing", call{path: "/v1/runs/domain:verify", key: "k"}, 422, "bad-input", "empty"},
		{"an array", call{path: "/v1/runs/domain:verify", key: "k", body: "[{}]"}, 422, "bad-rows",
			"element 1: organization_id is missing"},
		{"an array that is cut off", call{path: "/v1/runs/domain:verify", key: "k", body: "[" + `{"organization_id":"o",` +
			`"discovery_domain_id":"d"},{`}, 422, "bad-input", "after 1 row: the input ends there"},
		{"another header", call{path: "/v1/runs/domain:verify", key: "k", body: "organization_id,colour\na,b\n"},
			422, "bad-input", "colour"},
		{"too many bytes, told at once", call{path: "/v1/runs/domain:verify", key: "k", body: big}, 413,
			"too-large", "50000 bytes"},
		{
			"too many bytes, told by nobody", call{path: "/v1/runs/domain:verify", key: "k",
				reader: io.MultiReader(strings.NewReader(big))}, 413, "too-large", "50000 bytes",
		},
		{"gzip that expands", call{path: "/v1/runs/domain:verify", key: "k", body: zipped(t, big)}, 413,
			"too-large", "expanded"},
		{
			"gzip of empty gzips", call{path: "/v1/runs/domain:verify", key: "k",
				body: zipped(t, strings.Repeat(zipped(t, ""), 4000)), header: http.Header{"Content-Encoding": {"gzip"}}}, 413,
			"too-large", "expanded",
		},
		{"too many rows", call{path: "/v1/runs/domain:verify", key: "k", body: rows(101)}, 413, "too-large", "at most 100"},
	}
	w := newWorld(t, func(c *httpapi.Config) { c.Limits.MaxBytes, c.Limits.MaxRows = 50_000, 100 })
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			test.call.method, test.call.token = "POST", billing
			got := w.do(test.call)
			got.want(t, test.status, test.problem)
			if !strings.Contains(got.body, test.detail) {
				t.Errorf("%q is not in %s", test.detail, got.body)
			}
			w.noRuns()
		})
	}
}

func TestBadRows(t *testing.T) {
	var body strings.Builder
	body.WriteString(rows(1))
	for range 60 {
		body.WriteString("org_0000000000000000,\n")
	}
	w := newWorld(t)
	c := call{method: "POST", path: "/v1/runs/" + w.kind, token: billing, key: "k", body: body.String()}
	got := w.do(c)
	got.want(t, 422, "bad-rows")
	var told struct {
		Invalid struct {
			Rows  int64
			First []struct {
				Line    int
				Message string
			}
		}
	}
	if err := json.Unmarshal([]byte(got.body), &told); err != nil {
		t.Fatal(err)
	}
	if bad := told.Invalid; bad.Rows != 60 || len(bad.First) != 50 || bad.First[0].Line != 3 ||
		bad.First[0].Message != "discovery_domain_id is missing" {
		t.Errorf("of %d rows: %+v", bad.Rows, bad.First)
	}
	w.noRuns()

	// The key is free still, and the good row can go in without the bad ones.
	c.path += "?skip_invalid=1"
	got = w.do(c)
	got.want(t, 202, "")
	if run := got.run(t); run.Submission.Invalid.Rows != 60 || run.Submission.Rows != 61 {
		t.Errorf("submission %+v, want 60 of 61 rows bad", run.Submission)
	}
	if r := w.wholeRun(got.run(t).Run); r.Total() != 61 || r.Counts["invalid"] != 60 {
		t.Errorf("%d rows, counts %v; want 61 with 60 invalid", r.Total(), r.Counts)
	}
}

// TestByName has rows with names: of an organization, and alone, which are not known.
func TestByName(t *testing.T) {
	w := newWorld(t)
	c := call{method: "POST", path: "/v1/runs/domain:verify", token: billing, key: "k", body: `{"domain":"acme.example"}`}
	for _, query := range []string{"", "?dry_run=1"} {
		c.path = "/v1/runs/domain:verify" + query
		got := w.do(c)
		got.want(t, 422, "bad-rows")
		if !strings.Contains(got.body, `"unknown_domains":1,`) ||
			!strings.Contains(got.body, "no domain acme.example is known here") {
			t.Errorf("%s: %s", query, got.body)
		}
	}
	w.noRuns()
	c.path, c.body = "/v1/runs/domain:verify", `{"organization_id":"org_1","domain":"acme.example"}`
	got := w.do(c)
	got.want(t, 202, "")
	if r := w.wholeRun(got.run(t).Run); r.Total() != 1 {
		t.Errorf("%d rows", r.Total())
	}
}

func TestSameKey(t *testing.T) {
	w := newWorld(t)
	first := w.submit("k", rows(3))
	w.wholeRun(first.Run)

	t.Run("the same content", func(t *testing.T) {
		got := w.do(call{method: "POST", path: "/v1/runs/" + w.kind, token: billing, key: `"k"`,
			body: zipped(t, rows(3))})
		got.want(t, 202, "")
		if run := got.run(t); run.Run != first.Run || run.State != "open" {
			t.Errorf("run %+v, want %s as it stands", run, first.Run)
		}
	})
	t.Run("other content", func(t *testing.T) {
		got := w.do(call{method: "POST", path: "/v1/runs/" + w.kind, token: billing, key: "k", body: rows(4)})
		got.want(t, 422, "key-reused")
		if !strings.Contains(got.body, "content") {
			t.Errorf("what differs is not told: %s", got.body)
		}
	})
	t.Run("another tenant", func(t *testing.T) {
		got := w.do(call{method: "POST", path: "/v1/runs/" + w.kind + "?tenant=acme", token: billing,
			key: "k", body: rows(3)})
		got.want(t, 422, "key-reused")
	})
	t.Run("another label or start", func(t *testing.T) {
		for _, differs := range []string{"label=x", "not_before=2026-01-02T03:04:05Z"} {
			got := w.do(call{method: "POST", path: "/v1/runs/" + w.kind + "?" + differs, token: billing,
				key: "k", body: rows(3)})
			got.want(t, 422, "key-reused")
			if name, _, _ := strings.Cut(differs, "="); !strings.Contains(got.body, "a different "+name) {
				t.Errorf("%s: %s, want its name", differs, got.body)
			}
		}
	})
	t.Run("after a cancel", func(t *testing.T) {
		for key, parameters := range map[string]string{"now": "", "later": query("not_before",
			time.Now().Add(time.Hour).UTC().Format(time.RFC3339))} {
			path := "/v1/runs/" + w.kind + parameters
			id := w.do(call{method: "POST", path: path, token: billing, key: key, body: rows(3)}).run(t).Run
			w.do(call{method: "POST", path: "/v1/runs/" + id + "/cancel", token: billing}).want(t, 200, "")
			got := w.do(call{method: "POST", path: path, token: billing, key: key, body: rows(3)})
			got.want(t, 200, "")
			if again := got.run(t); again.Run != id || strings.Contains(got.body, "not_before") {
				t.Errorf("key %s: %s, want the cancelled run %s", key, got.body, id)
			}
		}
	})
	t.Run("another caller", func(t *testing.T) {
		got := w.do(call{method: "POST", path: "/v1/runs/domain:verify", token: crm, key: "k", body: rows(5)})
		got.want(t, 202, "")
		if got.run(t).Run == first.Run {
			t.Error("it is billing's run")
		}
		w.wholeRun(got.run(t).Run)
	})
	t.Run("after its end", func(t *testing.T) {
		w.settle(first.Run, "done", "", 0, 1, 2)
		got := w.do(call{method: "POST", path: "/v1/runs/" + w.kind, token: billing, key: "k", body: rows(3)})
		got.want(t, 200, "")
		if run := got.run(t); run.Run != first.Run || run.State != "ended" || run.Counts["done"] != 3 {
			t.Errorf("run %+v, want it ended", run)
		}
	})
}

func TestDryRun(t *testing.T) {
	w := newWorld(t)
	got := w.do(call{method: "POST", path: "/v1/runs/domain:verify?dry_run=1&skip_invalid=1", token: billing,
		body: rows(3) + "org_x\n"})
	got.want(t, 200, "")
	var plan map[string]any
	if err := json.Unmarshal([]byte(got.body), &plan); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"dry_run": true, "kind": "domain:verify", "tenant": "default", "rows": 4.0, "tasks": 3.0, "api_calls": 6.0,
		"invalid": map[string]any{
			"rows": 1.0, "first": []any{map[string]any{"line": 5.0, "row": 3.0, "message": "1 cell where the header has 2"}},
		},
		"organizations": []any{
			map[string]any{"organization_id": "org_0000000000000000", "rows": 1.0},
			map[string]any{"organization_id": "org_0000000000000001", "rows": 1.0},
			map[string]any{"organization_id": "org_0000000000000002", "rows": 1.0},
		},
	}
	if diff := cmp.Diff(want, plan); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
	w.noRuns()
}

func TestGiveUp(t *testing.T) {
	w := newWorld(t)
	if _, err := tenant.Announce(t.Context(), w.rdb, tenant.Announced{Tenant: "default", Rate: "2/s"}); err != nil {
		t.Fatal(err)
	}
	got := w.do(call{method: "POST", path: "/v1/runs/domain:verify?give_up=90m", token: billing,
		key: "given", body: rows(1)})
	got.want(t, 202, "")
	if r := w.wholeRun(got.run(t).Run); r.GiveUp != 90*time.Minute {
		t.Errorf("gives up after %s, want 90m", r.GiveUp)
	}
	again := call{method: "POST", path: "/v1/runs/domain:verify?give_up=91m", token: billing, key: "given", body: rows(1)}
	w.do(again).want(t, 422, "key-reused")
	again.path = "/v1/runs/domain:verify"
	w.do(again).want(t, 202, "")
	if !strings.Contains(got.body, `"worker_seen":true`) {
		t.Errorf("the worker was not seen: %s", got.body)
	}
}

// TestBatchWait submits removals. A single row waits for others of its organization, unless
// the request says otherwise; of several rows none does.
func TestBatchWait(t *testing.T) {
	w := newWorld(t)
	const path, row = "/v1/runs/clients:remove", `{"organization_id":"org_1","client_id":"c1"}` + "\n"
	for i, c := range []struct {
		query, body string
		want        ledger.Description
	}{
		{"", row, ledger.Description{Group: "org_1", BatchWait: tasks.DefaultBatchWait}},
		{query("batch_wait", "0s"), row, ledger.Description{Group: "org_1"}},
		{query("batch_wait", "500ms"), row, ledger.Description{Group: "org_1", BatchWait: 500 * time.Millisecond}},
		{"", row + strings.ReplaceAll(row, "c1", "c2"), ledger.Description{}},
	} {
		got := w.do(call{method: "POST", path: path + c.query, token: billing, key: fmt.Sprint("k", i), body: c.body})
		got.want(t, http.StatusAccepted, "")
		run, err := w.ledger.Get(t.Context(), "", ledger.RunID(got.run(t).Run))
		if d := run.Description; err != nil || d.Group != c.want.Group || d.BatchWait != c.want.BatchWait {
			t.Errorf("%s: %+v, %v; want %+v", c.query, d, err, c.want)
		}
	}
	again := call{method: "POST", path: path, token: billing, key: "k2", body: row}
	w.do(again).want(t, http.StatusUnprocessableEntity, "key-reused") // it was 500ms
	again.path += query("batch_wait", "500ms")
	w.do(again).want(t, http.StatusAccepted, "")
	for _, path := range []string{path + query("batch_wait", "2m"), path + query("batch_wait", "soon"),
		"/v1/runs/domain:verify" + query("batch_wait", "1s")} {
		w.do(call{method: "POST", path: path, token: billing, key: "bad", body: row}).want(t,
			http.StatusBadRequest, "bad-request")
	}
}

// TestFormsOfBodies: the same rows in another form are the same request, and the answer says how
// they were read.
func TestFormsOfBodies(t *testing.T) {
	w := newWorld(t)
	plain := rows(3)
	tabs := strings.ReplaceAll(plain, ",", "\t") + "\t\n"
	for _, form := range []struct{ mediaType, body, notes string }{
		{"text/csv; charset=utf-8", plain, ""},
		{"text/csv", strings.ReplaceAll(plain, ",", ";"), `"notes":"separated by ;"`},
		{"text/tab-separated-values", tabs, `"notes":"separated by tabs, 1 empty row left out"`},
		{"text/csv; charset=utf-16", zipped(t, "\xff\xfe"+strings.Join(strings.Split(plain, ""), "\x00")+"\x00"),
			`"notes":"read as UTF-16"`},
	} {
		got := w.do(call{method: "POST", path: "/v1/runs/domain:verify", key: "k", token: billing, body: form.body,
			header: http.Header{"Content-Type": {form.mediaType}}})
		if got.StatusCode != http.StatusAccepted || !strings.Contains(got.body, form.notes) ||
			strings.Contains(got.body, "notes") != (form.notes != "") {
			t.Errorf("%s: %d %s, want %s", form.mediaType, got.StatusCode, got.body, form.notes)
		}
	}
	got := w.do(call{method: "POST", path: "/v1/runs/domain:verify", key: "k", token: billing, body: plain,
		header: http.Header{"Content-Type": {"text/csv; charset=windows-1252"}}})
	got.want(t, http.StatusUnsupportedMediaType, "unsupported-type")
}
