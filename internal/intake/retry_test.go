package intake_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/redis/go-redis/v9"

	"orgops/internal/intake"
	"orgops/internal/ledger"
	"orgops/internal/ledgertest"
	"orgops/internal/redistest"
	"orgops/internal/remedy"
	"orgops/internal/rowfile"
	"orgops/tasks"
)

// ended hands rows of clients in as run "a" and settles row i as outcomes[i%len].
func ended(t *testing.T, rows int, outcomes ...string) ledger.Run {
	t.Helper()
	var text strings.Builder
	text.WriteString("organization_id,client_id\n")
	for i := range rows {
		fmt.Fprintf(&text, "o%d,c%d\n", i%7, i)
	}
	run := handInAs(t, "a", tasks.TypeRemove, text.String())
	items := map[string][]int64{}
	for i := range rows {
		outcome := outcomes[i%len(outcomes)]
		items[outcome] = append(items[outcome], int64(i))
	}
	for outcome, some := range items {
		settleAs(t, run, outcome, "", some...)
	}
	return run
}

// taker submits over the test's Redis.
func taker(t *testing.T) intake.Intake {
	t.Helper()
	rdb := redistest.New(t)
	return intake.New(rdb, ledger.New(rdb))
}

func storedOf(t *testing.T, l *ledger.Ledger, id string) []string {
	t.Helper()
	r := ledgertest.Find(t, l, id)
	rows, err := l.Contents(t.Context(), r, 0, int(r.Total()))
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, row := range rows {
		all = append(all, string(row))
	}
	return all
}

func TestRetryChooses(t *testing.T) {
	all := []string{"done", "unchanged", "failed", "refused", "invalid", "expired", "cancelled"}
	tests := []struct {
		name     string
		outcomes []string
		want     []string
	}{
		{"what is not well, but what is invalid", nil, []string{`{"organization_id":"o2","client_id":"c2"}`,
			`{"organization_id":"o3","client_id":"c3"}`, `{"organization_id":"o5","client_id":"c5"}`,
			`{"organization_id":"o6","client_id":"c6"}`}},
		{"some outcomes", []string{"cancelled", "failed"},
			[]string{`{"organization_id":"o2","client_id":"c2"}`, `{"organization_id":"o6","client_id":"c6"}`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ended(t, 7, all...)
			i := taker(t)
			var begun ledger.Run
			sub, err := i.Retry(t.Context(), ledger.Run{Tenant: "default", ID: "a"},
				intake.RetryOptions{ID: "b", Outcomes: tt.outcomes, Label: "l",
					Created: func(r ledger.Run) { begun = r }})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, storedOf(t, i.Ledger, "b")); diff != "" {
				t.Errorf("stored (-want +got):\n%s", diff)
			}
			if want := int64(len(tt.want)); sub.Run.Parent != "a" || begun.ID != "b" || sub.Run.Label != "l" ||
				sub.Rows != want || sub.Tasks != want {
				t.Errorf("child %+v, begun %q, %+v", sub.Run, begun.ID, sub)
			}
			parent, err := i.Ledger.Get(t.Context(), "", "a")
			if err != nil || !cmp.Equal(parent.Children, []ledger.Child{{ID: "b", Number: 1}}) {
				t.Errorf("children %v, %v", parent.Children, err)
			}
		})
	}
}

// TestRetryOfAReason counts and retries the rows of one reason, in the form in which a list or a
// row has it. The retry of a reason ends as all retries do if its producer is killed.
func TestRetryOfAReason(t *testing.T) {
	const listed = "PATCH …: 500"
	for _, reason := range []string{listed, "PATCH /organizations/o9: 500"} {
		t.Run(reason, func(t *testing.T) {
			run := handInAs(t, "a", tasks.TypeRemove, "organization_id,client_id\no0,c0\no1,c1\no2,c2\no3,c3\no4,c4\n")
			settleAs(t, run, "failed", "PATCH /organizations/o0: 500", 0)
			settleAs(t, run, "failed", "PATCH /organizations/o1: 500", 1)
			settleAs(t, run, "failed", "PATCH /organizations/o2: 404", 2)
			settleAs(t, run, "refused", "PATCH /organizations/o3: 500", 3)
			settleAs(t, run, "failed", "", 4)
			i := taker(t)
			of := intake.RetryOptions{ID: "b", Outcomes: []string{"failed"}, Reason: reason}
			if rows, err := i.Retryable(t.Context(), ledgertest.Find(t, i.Ledger, "a"), of); rows != 2 || err != nil {
				t.Errorf("%d rows, %v; want 2", rows, err)
			}
			retry(t, of)
			want := []string{`{"organization_id":"o0","client_id":"c0"}`, `{"organization_id":"o1","client_id":"c1"}`}
			if diff := cmp.Diff(want, storedOf(t, i.Ledger, "b")); diff != "" {
				t.Errorf("stored (-want +got):\n%s", diff)
			}
			if rows, err := i.Retryable(t.Context(), ledgertest.Find(t, i.Ledger, "a"), of); rows != 0 || err != nil {
				t.Errorf("after the retry %d rows, %v; want none", rows, err)
			}
			_, err := i.Retry(t.Context(), run, intake.RetryOptions{ID: "b", Outcomes: []string{"failed"}})
			if !errors.Is(err, ledger.ErrMismatch) {
				t.Errorf("the retry with other rows: %v", err)
			}
		})
	}
}

// TestRetryCutShort checks that the remedy of a retry without all of its rows names the command
// that selects the same ones, or none if there is no such.
func TestRetryCutShort(t *testing.T) {
	many := make([]int64, 101)
	for n := range many {
		many[n] = int64(n)
	}
	for _, tt := range []struct {
		o    intake.RetryOptions
		want string
	}{
		{intake.RetryOptions{Outcomes: []string{"failed"}, Reason: "it's …"},
			`to submit the rest: enqueue runs retry a --outcome failed --reason 'it'\''s …' --run b`},
		{intake.RetryOptions{Items: []int64{1, 0}}, "to submit the rest: enqueue runs retry a --row 0,1 --run b"},
		{intake.RetryOptions{Items: many}, "end it (enqueue runs cancel b), and choose the rows again"},
	} {
		t.Run(tt.want, func(t *testing.T) {
			run := handInAs(t, "a", tasks.TypeRemove, "organization_id,client_id\no0,c0\no1,c1\n")
			settleAs(t, run, "failed", "it's 5", 0, 1)
			ctx, cancel := context.WithCancel(t.Context())
			tt.o.ID = "b"
			tt.o.Created = func(ledger.Run) { cancel() }
			_, err := taker(t).Retry(ctx, run, tt.o)
			if err == nil || !strings.HasSuffix(err.Error(), tt.want) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}

func TestRetryRefuses(t *testing.T) {
	open := func(t *testing.T) { handInAs(t, "a", tasks.TypeRemove, "organization_id,client_id\no,c\n") }
	failed := func(t *testing.T) { ended(t, 2, "failed", "expired") }
	tests := []struct {
		name  string
		setup func(*testing.T)
		o     intake.RetryOptions
		want  func(error) bool
	}{
		{"no such run", func(*testing.T) {}, intake.RetryOptions{}, is(ledger.ErrNotFound)},
		{"a run that is open", open, intake.RetryOptions{}, is(ledger.ErrOpen)},
		{"nothing to retry", func(t *testing.T) { ended(t, 2, "done", "invalid") }, intake.RetryOptions{},
			is(intake.ErrNothingToRetry)},
		{"none of that outcome", failed, intake.RetryOptions{Outcomes: []string{"refused"}}, is(intake.ErrNothingToRetry)},
		{"the run itself", failed, intake.RetryOptions{ID: "a"}, is(ledger.ErrMismatch)},
		{"an outcome of which rows do not change", failed, intake.RetryOptions{Outcomes: []string{"invalid"}},
			func(err error) bool { return err != nil }},
		{"no outcome at all", failed, intake.RetryOptions{Outcomes: []string{"broken"}},
			func(err error) bool { return err != nil }},
		{"other rows than before", func(t *testing.T) { failed(t); retry(t, intake.RetryOptions{ID: "b"}) },
			intake.RetryOptions{ID: "b", Outcomes: []string{"failed"}}, is(ledger.ErrMismatch)},
		{
			"a child that has not ended", func(t *testing.T) {
				failed(t)
				retry(t, intake.RetryOptions{ID: "b"})
			}, intake.RetryOptions{},
			func(err error) bool {
				open, ok := errors.AsType[*intake.RetriedError](err)
				return ok && cmp.Equal(*open, intake.RetriedError{Run: "a", Child: "b"})
			},
		},
		{"a child that was cancelled", func(t *testing.T) {
			failed(t)
			retry(t, intake.RetryOptions{ID: "b"})
			if err := taker(t).Ledger.Cancel(t.Context(), "default", "b"); err != nil {
				t.Fatal(err)
			}
		}, intake.RetryOptions{ID: "b"}, is(intake.ErrCancelled)},
	}
	const otherRows = "a retry is completed by the same command as before, with the same outcomes, reason and rows; " +
		"if rows were chosen on a page, cancel the run, and choose them again"
	fixes := map[string]string{ // of those that a person can do something about
		"a run that is open":         "follow it to its end (enqueue runs follow a), or end it (enqueue runs cancel a)",
		"the run itself":             otherRows,
		"other rows than before":     otherRows,
		"a child that has not ended": "follow it to its end: enqueue runs follow b",
		"a child that was cancelled": "submit its rows again as another run, if they are still wanted",
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.setup(t)
			i := taker(t)
			before, err := i.Ledger.Runs(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			_, err = i.Retry(t.Context(), ledger.Run{Tenant: "default", ID: "a"}, tt.o)
			if fix, _ := remedy.Of(err); !tt.want(err) || fix != fixes[tt.name] {
				t.Errorf("got %v, want the remedy %q", err, fixes[tt.name])
			}
			after, err := i.Ledger.Runs(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(before, after, cmpopts.IgnoreUnexported(ledger.Run{})); diff != "" {
				t.Errorf("runs changed (-before +after):\n%s", diff)
			}
		})
	}
}

func is(want error) func(error) bool { return func(err error) bool { return errors.Is(err, want) } }

func retry(t *testing.T, o intake.RetryOptions) {
	t.Helper()
	if _, err := taker(t).Retry(t.Context(), ledger.Run{Tenant: "default", ID: "a"}, o); err != nil {
		t.Fatal(err)
	}
}

var errKilled = errors.New("killed")

// dyingTaker is a taker that is killed after a number of scripts.
func dyingTaker(t *testing.T, scripts int64) intake.Intake {
	t.Helper()
	rdb, seen := redistest.New(t), atomic.Int64{}
	rdb.AddHook(redistest.Around(func(_ context.Context, run func() error, cmds ...redis.Cmder) error {
		if len(cmds) == 1 && strings.HasPrefix(cmds[0].Name(), "eval") && seen.Add(1) > scripts {
			return errKilled
		}
		return run()
	}))
	return intake.New(rdb, ledger.New(rdb))
}

// TestRetryIsCompleted: cut off anywhere, the same call completes it.
func TestRetryIsCompleted(t *testing.T) {
	done := redistest.Amount(9, 10) // one of them beyond the first segment
	all := done * 1005
	ended(t, all, append(slices.Repeat([]string{"failed"}, 1004), "done")...)
	killed := 0
	for scripts := int64(1); ; scripts += 2 * int64(redistest.Stride(13)) {
		_, err := dyingTaker(t, scripts).Retry(t.Context(), ledger.Run{Tenant: "default", ID: "a"},
			intake.RetryOptions{ID: "b"})
		if err == nil {
			break
		}
		if killed++; !errors.Is(err, errKilled) {
			t.Fatalf("after %d scripts: %v", scripts, err)
		}
	}
	if killed < 3 {
		t.Errorf("killed %d times", killed)
	}
	i := taker(t)
	rows := all - done
	sub, err := i.Retry(t.Context(), ledger.Run{Tenant: "default", ID: "a"}, intake.RetryOptions{ID: "b"})
	if err != nil || sub.Rows != int64(rows) {
		t.Errorf("got %+v, %v, want %d rows", sub, err, rows)
	}
	stored := storedOf(t, i.Ledger, "b")
	client := func(n int) string { return fmt.Sprintf(`{"organization_id":"o%d","client_id":"c%d"}`, n%7, n) }
	if len(stored) != rows || stored[0] != client(0) || stored[1003] != client(1003) || stored[1004] != client(1005) {
		t.Errorf("%d stored, among them %q", len(stored), stored[1003:1005])
	}
}

// TestRetryThatWasNeverCreated has a producer die between adopting the child and creating it. It
// can be completed, and another retry needs not wait for it.
func TestRetryThatWasNeverCreated(t *testing.T) {
	run := ended(t, 2, "failed")
	i := taker(t)
	run, err := i.Ledger.Get(t.Context(), "", run.ID)
	if err == nil {
		_, err = i.Ledger.Adopt(t.Context(), run, "b")
	}
	if err != nil {
		t.Fatal(err)
	}
	retry(t, intake.RetryOptions{ID: "c", Items: []int64{1}})
	retry(t, intake.RetryOptions{ID: "b"})
	for id, want := range map[string]int{"b": 1, "c": 1} {
		if rows := storedOf(t, i.Ledger, id); len(rows) != want {
			t.Errorf("run %s has rows %q, want %d", id, rows, want)
		}
	}
}

// TestRetryTakesEachRowOnce retries a run whose rows an earlier retry has taken. To submit them
// again would repeat what that one has done: it would remove a client that was associated
// again since.
func TestRetryTakesEachRowOnce(t *testing.T) {
	client := func(n int) string { return fmt.Sprintf(`{"organization_id":"o%d","client_id":"c%d"}`, n%7, n) }
	settled := func(outcome string) func(*testing.T, intake.Intake) {
		return func(t *testing.T, i intake.Intake) {
			run := ledgertest.Find(t, i.Ledger, "b")
			settleAs(t, run, outcome, "", 0)
			if run.Total() > 1 {
				settleAs(t, run, "done", "", 1)
			}
		}
	}
	for _, tt := range []struct {
		name          string
		first, second []string // outcomes
		between       func(*testing.T, intake.Intake)
		want          []string // rows of the second retry; none: it is refused
		err           func(error) bool
	}{
		{"all are done", nil, nil, settled("done"), nil, is(intake.ErrNothingToRetry)},
		{"one failed again", nil, nil, settled("failed"), nil,
			isRetried(intake.RetriedError{Run: "a", Child: "b", Ended: true})},
		{"the others", []string{"expired"}, nil, settled("done"), []string{client(0)}, nil},
		{"the others, one failed again", []string{"expired"}, nil, settled("failed"), []string{client(0)}, nil},
		{"the same outcome, which failed again", []string{"expired"}, []string{"expired"}, settled("failed"), nil,
			isRetried(intake.RetriedError{Run: "a", Child: "b", Ended: true})},
		{"another outcome, which no row has", []string{"expired"}, []string{"refused"}, settled("failed"), nil,
			is(intake.ErrNothingToRetry)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ended(t, 3, "failed", "done", "expired")
			i := taker(t)
			retry(t, intake.RetryOptions{ID: "b", Outcomes: tt.first})
			tt.between(t, i)
			_, err := i.Retry(t.Context(), ledger.Run{Tenant: "default", ID: "a"},
				intake.RetryOptions{ID: "c", Outcomes: tt.second})
			if tt.err != nil && !tt.err(err) || tt.err == nil && err != nil {
				t.Errorf("the second retry: %v", err)
			}
			if tt.want == nil {
				if _, err := i.Ledger.Get(t.Context(), "", "c"); !errors.Is(err, ledger.ErrNotFound) {
					t.Errorf("rows %q are submitted a second time, %v", storedOf(t, i.Ledger, "c"), err)
				}
			} else if diff := cmp.Diff(tt.want, storedOf(t, i.Ledger, "c")); diff != "" {
				t.Errorf("stored (-want +got):\n%s", diff)
			}
			if sub, err := i.Retry(t.Context(), ledger.Run{Tenant: "default", ID: "a"},
				intake.RetryOptions{ID: "b", Outcomes: tt.first}); err != nil ||
				!sub.Run.Ended() {
				t.Errorf("the first retry once more: %+v, %v", sub.Run, err)
			}
		})
	}
}

func isRetried(want intake.RetriedError) func(error) bool {
	return func(err error) bool {
		got, ok := errors.AsType[*intake.RetriedError](err)
		return ok && *got == want
	}
}

// TestRetryAfterOneWithoutRows cancels a retry before it has stored its rows. None of them was
// carried out, so that the next retry takes them.
func TestRetryAfterOneWithoutRows(t *testing.T) {
	ended(t, 3, "failed")
	i := taker(t)
	for scripts := int64(1); ; scripts++ {
		if _, err := dyingTaker(t, scripts).Retry(t.Context(), ledger.Run{Tenant: "default", ID: "a"},
			intake.RetryOptions{ID: "b"}); !errors.Is(err, errKilled) {
			t.Fatalf("after %d scripts: %v", scripts, err)
		}
		if _, err := i.Ledger.Get(t.Context(), "", "b"); err == nil {
			break
		}
	}
	if err := i.Ledger.Cancel(t.Context(), "default", "b"); err != nil {
		t.Fatal(err)
	}
	if sub, err := i.Retry(t.Context(), ledger.Run{Tenant: "default", ID: "a"},
		intake.RetryOptions{ID: "c"}); err != nil || sub.Rows != 3 {
		t.Errorf("%d rows, %v, want 3", sub.Rows, err)
	}
}

// skipped hands text with bad rows in as run "a", and cancels the good ones.
func skipped(t *testing.T, kind, text string) ledger.Run {
	t.Helper()
	in := input(t, kind, text, tasks.Defaults{})
	in.SkipInvalid = true
	l, _ := submitAll(t, in)
	if err := l.Cancel(t.Context(), "default", "a"); err != nil {
		t.Fatal(err)
	}
	return ledgertest.Find(t, l, "a")
}

// TestBadRowsComeBack: every row of a run with bad rows is given back, in each
// form, and the good ones are retried.
func TestBadRowsComeBack(t *testing.T) {
	const csvText = "organization_id,discovery_domain_id,use_for_organization_discovery\n" +
		"o0,d0,true\no1,,\no2,d2,perhaps\no3,d3,,more\no\"4,d4,\n,,\no6,\x00,\no7,\xff,\no8,d8,\"no end\n"
	const jsonText = `{"organization_id":"o0","discovery_domain_id":"d0"}` + "\n" + `{"organization_id":"o1","colour":1}` +
		"\nnot JSON\n" +
		`{"organization_id":"o3","organization_id":"o4"}` + "\n[]\n" + `{"organization_id":"o5","discovery_domain_id":"` +
		"\xff\"}\n"
	tests := []struct {
		name, text string
		asJSON     bool
		want       []string
		retried    string
	}{
		{"csv", csvText, false, []string{
			"organization_id,discovery_domain_id,use_for_organization_discovery,orgops_outcome,orgops_error," +
				"domain,host,value,found,advice,mistake",
			"o0,d0,true,cancelled,,,,,,,", "o1,,,invalid,line 3: discovery_domain_id is missing,,,,,,",
			"o2,d2,perhaps,invalid,\"line 4: use_for_organization_discovery: want true or false, got \"\"perhaps\"\"\",,,,,,",
			",,,invalid,line 5: 4 cells where the header has 3,,,,,,",
			",,,invalid,line 6: a quote in the middle of cell 1; put the whole cell in quotes and double each quote in it,,,,,,",
			"o6,\x00,,invalid,\"line 8: column 2 (\"\"discovery_domain_id\"\") has a NUL in it\",,,,,,",
			"o7,\ufffd,,invalid,\"line 9: column 2 (\"\"discovery_domain_id\"\") is not UTF-8 but probably Windows-1252: save the file as UTF-8\",,,,,,",
			",,,invalid,line 10: the quote opened in line 10 is never closed; the rest of the input was read as one cell,,,,,,",
		}, `{"organization_id":"o0","discovery_domain_id":"d0","use_for_organization_discovery":true}`},
		{"csv as json", csvText, true, []string{
			`{"organization_id":"o0","discovery_domain_id":"d0","use_for_organization_discovery":true,"orgops_outcome":"cancelled"}`,
			`{"organization_id":"o1","orgops_outcome":"invalid","orgops_error":"line 3: discovery_domain_id is missing"}`,
			`{"organization_id":"o2","discovery_domain_id":"d2","use_for_organization_discovery":"perhaps","orgops_outcome":"invalid","orgops_error":"line 4: use_for_organization_discovery: want true or false, got \"perhaps\""}`,
			`{"orgops_outcome":"invalid","orgops_error":"line 5: 4 cells where the header has 3"}`,
			`{"orgops_outcome":"invalid","orgops_error":"line 6: a quote in the middle of cell 1; put the whole cell in quotes and double each quote in it"}`,
			`{"organization_id":"o6","discovery_domain_id":"\u0000","orgops_outcome":"invalid","orgops_error":"line 8: column 2 (\"discovery_domain_id\") has a NUL in it"}`,
			`{"organization_id":"o7","discovery_domain_id":"` + "\ufffd" +
				`","orgops_outcome":"invalid","orgops_error":"line 9: column 2 (\"discovery_domain_id\") is not UTF-8 but probably Windows-1252: save the file as UTF-8"}`,
			`{"orgops_outcome":"invalid","orgops_error":"line 10: the quote opened in line 10 is never closed; the rest of the input was read as one cell"}`,
		}, `{"organization_id":"o0","discovery_domain_id":"d0","use_for_organization_discovery":true}`},
		{"json lines", jsonText, false, []string{
			`{"organization_id":"o0","discovery_domain_id":"d0","orgops_outcome":"cancelled"}`,
			`{"organization_id":"o1","colour":1,"orgops_outcome":"invalid","orgops_error":"line 2: unknown member \"colour\" (expected organization_id, discovery_domain_id (or domain)[, verification_host, verification_txt, use_for_organization_discovery])"}`,
			`{"orgops_outcome":"invalid","orgops_error":"line 3: not a JSON object: it must begin with {"}`,
			`{"orgops_outcome":"invalid","orgops_error":"line 4: member \"organization_id\" occurs twice"}`,
			`{"orgops_outcome":"invalid","orgops_error":"line 5: not a JSON object: it must begin with {"}`,
			`{"organization_id":"o5","discovery_domain_id":"` + "\xff" +
				`","orgops_outcome":"invalid","orgops_error":"line 6: the line is not UTF-8 but probably Windows-1252: save the file as UTF-8"}`,
		}, `{"organization_id":"o0","discovery_domain_id":"d0"}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			run := skipped(t, tasks.TypeVerify, tt.text)
			out, _ := export(t, run, tt.asJSON)
			if diff := cmp.Diff(tt.want, strings.Split(strings.TrimSuffix(out, "\n"), "\n")); diff != "" {
				t.Errorf("exported (-want +got):\n%s", diff)
			}
			retry(t, intake.RetryOptions{ID: "b"})
			if diff := cmp.Diff([]string{tt.retried}, storedOf(t, taker(t).Ledger, "b")); diff != "" {
				t.Errorf("retried (-want +got):\n%s", diff)
			}
		})
	}
}

// TestRetryOfASweep checks that a retry leaves out the records that a sweep could not check: a
// second check would refuse them again.
func TestRetryOfASweep(t *testing.T) {
	l := ledger.New(redistest.New(t))
	const bad = `{"organization_id":"o","discovery_domain_id":"d1","domain":"acme.example","status":"verified","tick":1}`
	const good = `{"organization_id":"o","discovery_domain_id":"d2","domain":"acme.example","verification_host":"_t.acme.example",` +
		`"verification_txt":"v","status":"verified","tick":1}`
	sweep := func(id ledger.RunID, second ledger.Outcome) ledger.Run {
		ledgertest.Submit(t, l, ledger.NewRun{ID: id, Tenant: "default", Kind: tasks.TypeRecheck,
			Description: ledger.Description{Format: rowfile.FormatJSONL}}, bad, good)
		run := ledgertest.Find(t, l, string(id))
		settleAs(t, run, "refused", "verification_txt: want 1 to 1024 bytes, got 0", 0)
		settleAs(t, run, string(second), "", 1)
		return run
	}
	run := sweep("a", ledger.Expired)
	if _, err := taker(t).Retry(t.Context(), run, intake.RetryOptions{ID: "b"}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{good}, storedOf(t, l, "b")); diff != "" {
		t.Errorf("stored (-want +got):\n%s", diff)
	}
	run = sweep("c", ledger.Done)
	for _, outcomes := range [][]string{nil, {"refused"}} {
		_, err := taker(t).Retry(t.Context(), run, intake.RetryOptions{Outcomes: outcomes})
		if !errors.Is(err, intake.ErrNothingToRetry) {
			t.Errorf("outcomes %q: %v, want %v", outcomes, err, intake.ErrNothingToRetry)
		}
	}
}
