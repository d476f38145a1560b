package runs_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/internal/ledger"
	"orgops/internal/runs"
	"orgops/internal/runstest"
)

// updates is the kind of the runs in the core.
const updates = "domain:update"

// coreRun is a run in the core whose rows the test executes.
type coreRun struct {
	t *testing.T
	*runs.Ledger
	run     ledger.Run
	session ledger.SessionID
}

// submitInCore submits rows to the core, in a segment for each size.
func submitInCore(t *testing.T, l *runs.Ledger, n ledger.NewRun, sizes ...int) coreRun {
	t.Helper()
	run, created, err := l.Core().Create(t.Context(), n)
	if err != nil || !created {
		t.Fatalf("create %s: created %v, %v", n.ID, created, err)
	}
	stager := stage(t, l, run, sizes...)
	if run, err = stager.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	return coreRun{t: t, Ledger: l, run: run, session: ledger.NewSessionID()}
}

// stage stages rows, in a segment for each size.
func stage(t *testing.T, l *runs.Ledger, run ledger.Run, sizes ...int) *ledger.Stager {
	t.Helper()
	stager, err := l.Core().NewStager(t.Context(), run)
	check(t, err)
	first := 0
	for _, size := range sizes {
		for _, row := range content(first, size) {
			check(t, stager.Add(t.Context(), row))
		}
		check(t, stager.Flush(t.Context()))
		first += size
	}
	return stager
}

func content(first, n int) [][]byte {
	rows := make([][]byte, n)
	for i := range rows {
		rows[i] = fmt.Appendf(nil, `{"organization_id":"org_%d"}`, first+i)
	}
	return rows
}

func (c coreRun) segment(number int) ledger.Segment {
	return ledger.Segment{Tenant: c.run.Tenant, Run: c.run.ID, Incarnation: c.run.Incarnation, Number: number}
}

// take releases and begins the next rows of a segment.
func (c coreRun) take(number, n int) (ledger.Nonce, []ledger.Row) {
	c.t.Helper()
	r, err := c.Core().Release(c.t.Context(), c.segment(number), ledger.Quota{First: n})
	if err != nil || len(r.Rows) != n {
		c.t.Fatalf("released %d of %d rows: %v", len(r.Rows), n, err)
	}
	var rows []ledger.Row
	for _, row := range r.Rows {
		rows = append(rows, row.Row)
	}
	nonce := ledger.NewNonce()
	if _, err := c.Core().Begin(c.t.Context(), c.segment(number),
		ledger.Execution{Token: r.Token, Nonce: nonce, Session: c.session}, rows...); err != nil {
		c.t.Fatal(err)
	}
	return nonce, rows
}

// end executes the next rows of a segment, each with its ending.
func (c coreRun) end(number int, endings ...ledger.Ending) {
	c.t.Helper()
	nonce, rows := c.take(number, len(endings))
	ends := make([]ledger.RowEnd, len(endings))
	for i, e := range endings {
		ends[i] = ledger.RowEnd{Row: rows[i], Ending: e}
	}
	if _, err := c.Core().End(c.t.Context(), c.segment(number), nonce, ends...); err != nil {
		c.t.Fatal(err)
	}
}

func done() ledger.Result { return ledger.Result{Outcome: ledger.Done} }

// facts is what the ledger says of a run through every method of readers.
type facts struct {
	run     runFacts
	results []runs.Result
	later   []runs.Result
	open    []string
	noted   []string
	total   int64
	rows    []string
	found   []string
	states  []string
}

type runFacts struct {
	description    ledger.Description
	sealed, paused bool
	rows, settled  int64
	counts         ledger.Counts
}

// factsOf reads the facts, without times of day and ids.
func factsOf(t *testing.T, l *runs.Ledger, id string) (f facts) {
	t.Helper()
	ctx := t.Context()
	r := get(t, l, id)
	f.run = runFacts{
		description: r.Description, sealed: r.Sealed(), rows: r.Rows, settled: r.Settled(),
		counts: r.Counts, paused: r.Paused,
	}
	f.results = results(t, l, id)
	f.later = collect(t, l.Results(ctx, ledger.Run{Tenant: "acme", ID: ledger.RunID(id)}, 4))
	f.open = openTexts(collect(t, l.OpenFrom(ctx, ledger.Run{Tenant: "acme", ID: ledger.RunID(id)}, 0)))
	noted, total, err := l.Notes(ctx, ledger.Run{Tenant: "acme", ID: ledger.RunID(id)}, 1000)
	check(t, err)
	f.noted, f.total = openTexts(noted), total
	slices.Sort(f.noted)
	rows, err := l.Rows(ctx, ledger.Run{Tenant: "acme", ID: ledger.RunID(id)}, 2, 100)
	check(t, err)
	for _, row := range rows {
		f.rows = append(f.rows, string(row))
	}
	for _, row := range collect(t, l.Search(ctx, ledger.Run{Tenant: "acme", ID: ledger.RunID(id)},
		[]byte("org_5"), []byte("org_0"))) {
		f.found = append(f.found, fmt.Sprint(row.Item, string(row.Source)))
	}
	for item := range int64(8) {
		state, err := l.Row(ctx, ledger.Run{Tenant: "acme", ID: ledger.RunID(id)}, item)
		check(t, err)
		text := openTexts([]runs.OpenRow{state.Open})[0]
		if state.Result != nil {
			text = fmt.Sprintf("{%d %s %s}", item, state.Result.Outcome, state.Result.Detail)
		}
		f.states = append(f.states, fmt.Sprintf("%s, evidence %q", text, state.Evidence))
	}
	return f
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func collect[T any](t *testing.T, seq func(func(T, error) bool)) (all []T) {
	t.Helper()
	for v, err := range seq {
		check(t, err)
		all = append(all, v)
	}
	return all
}

// openTexts returns open rows with their reasons, and whether they have a next time.
func openTexts(open []runs.OpenRow) (texts []string) {
	for _, row := range open {
		texts = append(texts, fmt.Sprintf("%d %q %v", row.Item, row.Reason, !row.Next.IsZero()))
	}
	return texts
}

// TestGivenBackRowHasNoNextTime: a row that no worker has begun is due since it was given
// back. That is not when it is checked next.
func TestGivenBackRowHasNoNextTime(t *testing.T) {
	l, _ := newLedger(t)
	ctx := t.Context()
	submitInCore(t, l, ledger.NewRun{ID: "new", Kind: updates, Tenant: "acme"}, 1)
	run, err := l.Core().Get(ctx, "new")
	check(t, err)
	seg := ledger.Segment{Tenant: run.Tenant, Run: run.ID, Incarnation: run.Incarnation}
	released, err := l.Core().Release(ctx, seg, ledger.Quota{First: 1})
	check(t, err)
	_, err = l.Core().GiveBack(ctx, seg, released.Token, 0)
	check(t, err)
	open := collect(t, l.OpenFrom(ctx, ledger.Run{Tenant: "acme", ID: "new"}, 0))
	if len(open) != 1 || open[0].Reason != "" || !open[0].Next.IsZero() {
		t.Errorf("open rows %+v", open)
	}
}

// TestFacade compares what readers see of a run with what was done to its rows, over
// segments.
func TestFacade(t *testing.T) {
	l, _ := newLedger(t)
	ctx := t.Context()
	digest := strings.Repeat("ab", 32)
	core := submitInCore(t, l, ledger.NewRun{
		ID: "new", Kind: updates, Tenant: "acme",
		Description: ledger.Description{Label: "a\tb", Format: "jsonl", Caller: "crm", Digest: digest},
	}, 3, 5)
	var texts []string
	for _, row := range content(2, 6) {
		texts = append(texts, string(row))
	}
	want := facts{
		run: runFacts{description: ledger.Description{Label: `a\tb`, Format: "jsonl", Caller: "crm", Digest: digest},
			sealed: true, rows: 8, counts: ledger.Counts{}},
		open: []string{`0 "" false`, `1 "" false`, `2 "" false`, `3 "" false`, `4 "" false`, `5 "" false`,
			`6 "" false`, `7 "" false`},
		rows:   texts,
		found:  []string{`0{"organization_id":"org_0"}`, `5{"organization_id":"org_5"}`},
		states: []string{},
	}
	compare := func(when string, states ...string) {
		t.Helper()
		want.states = states
		if have := factsOf(t, l, "new"); !reflect.DeepEqual(have, want) {
			t.Errorf("%s:\n%+v\nwant\n%+v", when, have, want)
		}
	}
	var states []string
	for _, row := range want.open {
		states = append(states, row+`, evidence ""`)
	}
	compare("submitted", states...)

	core.end(0, done(), ledger.Result{Outcome: "refused", Detail: "no\nproof"},
		ledger.Waiting{Stage: ledger.StageCheck, After: time.Minute, Memo: []byte("transient\x00503\x00own")})
	core.end(1, ledger.Result{Outcome: "done", Detail: "tpl_1"},
		ledger.Result{Outcome: "unchanged", Evidence: []byte("seen")},
		ledger.GiveBack{After: time.Minute, Note: "the worker stops"})
	want.run.settled, want.run.counts = 4, ledger.Counts{"done": 2, "refused": 1, "unchanged": 1}
	want.results = []runs.Result{
		{Item: 1, Result: ledger.Result{Outcome: "refused", Detail: `no\nproof`}},
		{Item: 3, Result: ledger.Result{Outcome: "done", Detail: "tpl_1"}},
		{Item: 4, Result: ledger.Result{Outcome: "unchanged", Evidence: []byte("seen")}},
	}
	want.later = want.results[2:]
	want.open = []string{`2 "transient: 503" true`, `5 "the worker stops" true`, `6 "" false`, `7 "" false`}
	want.noted, want.total = want.open[:2], 2
	states = []string{
		`{0 done }, evidence ""`, `{1 refused no\nproof}, evidence ""`, `2 "transient: 503" true, evidence ""`,
		`{3 done tpl_1}, evidence ""`,
		`{4 unchanged }, evidence "seen"`, `5 "the worker stops" true, evidence ""`, `6 "" false, evidence ""`,
		`7 "" false, evidence ""`,
	}
	compare("in progress", states...)
	if have := collect(t, l.Evidence(ctx, ledger.Run{Tenant: "acme", ID: "new"})); len(have) != 1 || have[0].Item != 4 ||
		string(have[0].Evidence) != "seen" {
		t.Errorf("evidence %+v", have)
	}
	if open := openTexts(collect(t, l.OpenFrom(ctx, ledger.Run{Tenant: "acme", ID: "new"}, 6))); len(open) != 2 {
		t.Errorf("open from row 6: %v", open)
	}

	check(t, runstest.Control(ctx, l.Core(), (*ledger.Ledger).Pause, "new"))
	want.run.paused = true
	compare("paused", states...)
	check(t, runstest.Control(ctx, l.Core(), (*ledger.Ledger).Resume, "new"))
	want.run.paused = false
	compare("resumed", states...)

	open, err := l.OpenByTenant(ctx)
	if want := (runs.OpenCounts{Runs: 1, Rows: 4}); err != nil || open["acme"] != want {
		t.Errorf("open: %+v, %v", open, err)
	}
	if all, err := l.Open(ctx); err != nil || !slices.Equal(idsOf(all), []string{"new"}) {
		t.Errorf("open: %v, %v", all, err)
	}
	if err := runstest.Control(ctx, l.Core(), (*ledger.Ledger).Delete, "new"); !errors.Is(err, ledger.ErrOpen) {
		t.Errorf("deleting an open run: %v", err)
	}
	if rows, err := l.Cancel(ctx, ledger.Run{Tenant: "acme", ID: "new"}); err != nil || rows != 4 {
		t.Errorf("cancel: %d rows, %v", rows, err)
	}
	r := get(t, l, "new")
	if !r.Ended() || r.CancelledAt.IsZero() || r.Settled() != 8 || r.Counts["cancelled"] != 4 {
		t.Errorf("not ended: %+v", r)
	}
	if have := results(t, l, "new"); len(have) != 7 || have[1].Outcome != "cancelled" {
		t.Errorf("results of a cancelled run: %+v", have)
	}
	if rows, err := l.Cancel(ctx, ledger.Run{Tenant: "acme", ID: "new"}); err != nil || rows != 0 {
		t.Errorf("second cancel: %d rows, %v", rows, err)
	}
	if err := runstest.Control(ctx, l.Core(), (*ledger.Ledger).Pause, "new"); !errors.Is(err, ledger.ErrEnded) {
		t.Errorf("pause: %v", err)
	}
	if err := runstest.Control(ctx, l.Core(), (*ledger.Ledger).Resume, "new"); !errors.Is(err, ledger.ErrEnded) {
		t.Errorf("resume: %v", err)
	}
	check(t, runstest.Control(ctx, l.Core(), (*ledger.Ledger).Delete, "new"))
	if _, err := l.Get(ctx, "", "new"); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("it was deleted: %v", err)
	}
}

// TestFacadeInProgress: an open row without a note says where it is.
func TestFacadeInProgress(t *testing.T) {
	l, _ := newLedger(t)
	core := submitInCore(t, l, ledger.NewRun{ID: "new", Kind: updates, Tenant: "acme"}, 3)
	core.take(0, 1)
	_, err := l.Core().Release(t.Context(), core.segment(0), ledger.Quota{First: 1})
	check(t, err)
	open := collect(t, l.OpenFrom(t.Context(), ledger.Run{Tenant: "acme", ID: "new"}, 0))
	if len(open) != 3 || !strings.HasPrefix(open[0].Reason, "in progress since ") ||
		open[1].Reason != "released to a worker" || open[2].Reason != "" {
		t.Errorf("open rows %+v", open)
	}
	if rows, err := l.Cancel(t.Context(), ledger.Run{Tenant: "acme", ID: "new"}); err != nil || rows != 2 {
		t.Errorf("cancelled %d rows, %v", rows, err)
	}
	if r := get(t, l, "new"); r.Ended() || r.Settled() != 2 || r.Total() != 3 || r.Paused {
		t.Errorf("a row is in progress: %+v", r)
	}
}

// TestFacadeLarge: rows are found in later segments, and settled ones skipped.
func TestFacadeLarge(t *testing.T) {
	l, _ := newLedger(t)
	core := submitInCore(t, l, ledger.NewRun{ID: "new", Kind: updates, Tenant: "acme"}, 300, 1, 500)
	for range 2 {
		nonce, rows := core.take(2, 240)
		_, err := l.Core().End(t.Context(), core.segment(2), nonce, ledger.Ends(done(), rows...)...)
		check(t, err)
	}
	core.end(1, ledger.Result{Outcome: "failed"})
	rows, err := l.Rows(t.Context(), ledger.Run{Tenant: "acme", ID: "new"}, 290, 20)
	check(t, err)
	if len(rows) != 20 || string(rows[0]) != string(content(290, 1)[0]) || string(rows[19]) != string(content(309, 1)[0]) {
		t.Errorf("rows from 290: %q", rows)
	}
	if rows, err = l.Rows(t.Context(), ledger.Run{Tenant: "acme", ID: "new"}, 799, 20); err != nil || len(rows) != 2 {
		t.Errorf("rows from 799: %q, %v", rows, err)
	}
	open := collect(t, l.OpenFrom(t.Context(), ledger.Run{Tenant: "acme", ID: "new"}, 299))
	if len(open) != 21 || open[0].Item != 299 || open[1].Item != 781 || open[20].Item != 800 {
		t.Errorf("open rows %+v", open)
	}
	if have := results(t, l, "new"); len(have) != 1 || have[0].Item != 300 {
		t.Errorf("results %+v", have)
	}
	found := collect(t, l.Search(t.Context(), ledger.Run{Tenant: "acme", ID: "new"}, []byte(`org_777"`)))
	if len(found) != 1 || found[0].Item != 777 {
		t.Errorf("found %+v", found)
	}
}

// TestFacadeIDs: an id names one run of a tenant.
func TestFacadeIDs(t *testing.T) {
	l, _ := newLedger(t)
	ctx := t.Context()
	submitInCore(t, l, ledger.NewRun{ID: "new", Kind: updates, Tenant: "acme"}, 1)
	inCore := func(n ledger.NewRun) error {
		_, _, err := l.Core().Create(ctx, n)
		return err
	}
	single := func(id ledger.RunID, tenant ledger.Tenant) error {
		_, _, err := l.Core().SubmitRow(ctx, ledger.NewRun{ID: id, Kind: updates, Tenant: tenant}, []byte(`{}`))
		return err
	}
	for name, c := range map[string]struct {
		err    error
		member string
	}{
		"other kind": {inCore(ledger.NewRun{ID: "new", Kind: "domain:verify", Tenant: "acme"}), "kind"},
		"other digest": {
			inCore(ledger.NewRun{ID: "new", Kind: updates, Tenant: "acme", Description: ledger.Description{Digest: "ab"}}),
			"content",
		},
		"single row": {single("new", "acme"), "content"},
	} {
		if e, ok := errors.AsType[*ledger.MismatchError](c.err); !ok || string(e.Member) != c.member {
			t.Errorf("%s: %v, want a mismatch of the %s", name, c.err, c.member)
		}
	}
	run, created, err := l.Core().Create(ctx, ledger.NewRun{ID: "new", Kind: updates, Tenant: "acme"})
	if err != nil || created || run.ID != "new" || run.Rows != 1 {
		t.Errorf("created again: %+v, %v, %v", run, created, err)
	}
	// Another tenant's run of that id is another run.
	check(t, single("new", "beta"))
	_, err = l.Get(ctx, "", "new")
	if several, ok := errors.AsType[*ledger.AmbiguousError](err); !ok ||
		!slices.Equal(several.Tenants, []ledger.Tenant{"acme", "beta"}) {
		t.Errorf("without a tenant: %v, want both tenants", err)
	}
	if of, err := l.Get(ctx, "beta", "new"); err != nil || of.Tenant != "beta" {
		t.Errorf("with a tenant: %+v, %v", of, err)
	}
}

// TestFacadeStaged: a staged run is being submitted, and a cancel ends it without rows.
func TestFacadeStaged(t *testing.T) {
	l, _ := newLedger(t)
	ctx := t.Context()
	run, _, err := l.Core().Create(ctx, ledger.NewRun{ID: "new", Kind: updates, Tenant: "acme"})
	check(t, err)
	stager := stage(t, l, run, 3)
	r := get(t, l, "new")
	if r.Sealed() || r.Total() != 0 || r.Ended() {
		t.Errorf("staged: %+v", r)
	}
	if all, err := l.Open(ctx); err != nil || !slices.Equal(idsOf(all), []string{"new"}) {
		t.Errorf("open: %v, %v", all, err)
	}
	if rows, err := l.Rows(ctx, ledger.Run{Tenant: "acme", ID: "new"}, 0, 10); err != nil || len(rows) != 0 {
		t.Errorf("rows: %q, %v", rows, err)
	}
	if open := collect(t, l.OpenFrom(ctx, ledger.Run{Tenant: "acme", ID: "new"}, 0)); len(open) != 0 {
		t.Errorf("open: %v", open)
	}
	if rows, err := l.Cancel(ctx, ledger.Run{Tenant: "acme", ID: "new"}); err != nil || rows != 0 {
		t.Errorf("cancel: %d, %v", rows, err)
	}
	if r := get(t, l, "new"); !r.Ended() || r.CancelledAt.IsZero() || !r.Sealed() || r.Total() != 0 {
		t.Errorf("a cancelled staged run: %+v", r)
	}
	if _, err := stager.Commit(ctx); err == nil {
		t.Error("a cancelled run takes rows")
	}
	if rows, err := l.Cancel(ctx, ledger.Run{Tenant: "acme", ID: "new"}); err != nil || rows != 0 {
		t.Errorf("cancel again: %d, %v", rows, err)
	}
	check(t, runstest.Control(ctx, l.Core(), (*ledger.Ledger).Delete, "new"))
}

// TestFacadeControls: whatever stops a run is in it.
func TestFacadeControls(t *testing.T) {
	l, _ := newLedger(t)
	ctx := t.Context()
	later := time.Now().Add(time.Hour).UTC().Truncate(time.Millisecond)
	submitInCore(t, l, ledger.NewRun{ID: "new", Kind: updates, Tenant: "acme",
		Control: ledger.Control{NotBefore: later}}, 1)
	if r := get(t, l, "new"); !r.NotBefore.Equal(later) || r.Paused {
		t.Errorf("%+v", r)
	}
	check(t, runstest.Control(ctx, l.Core(), (*ledger.Ledger).Pause, "new"))
	if r := get(t, l, "new"); !r.NotBefore.Equal(later) || !r.Paused {
		t.Errorf("paused: %+v", r)
	}
}

// TestFacadePages: pages of several tenants are the list, whatever their size.
func TestFacadePages(t *testing.T) {
	l, _ := newLedger(t)
	ctx := t.Context()
	for i := range 12 {
		submitInCore(t, l, ledger.NewRun{ID: ledger.RunID(fmt.Sprint("new", i)), Kind: updates,
			Tenant: ledger.Tenant(fmt.Sprint("t", i%4))}, 1)
		time.Sleep(2 * time.Millisecond)
	}
	all, err := l.List(ctx)
	check(t, err)
	if len(all) != 12 || all[0].ID != "new11" || all[11].ID != "new0" {
		t.Fatalf("list: %v", idsOf(all))
	}
	for most := range 13 {
		if have := pages(ctx, t, l, runs.Query{Limit: most + 1}); !slices.Equal(have, idsOf(all)) {
			t.Errorf("pages of %d: %v, want %v", most+1, have, idsOf(all))
		}
	}
	wanted := runs.Query{Limit: 2, MaxRead: 3, Match: func(r ledger.Run) bool { return r.Tenant == "t1" }}
	if have := pages(ctx, t, l, wanted); !slices.Equal(have, []string{"new9", "new5", "new1"}) {
		t.Errorf("pages of a tenant: %v", have)
	}
}

// pages returns the ids of the runs of all pages.
func pages(ctx context.Context, t *testing.T, l *runs.Ledger, w runs.Query) (ids []string) {
	t.Helper()
	for {
		page, next, err := l.Page(ctx, w)
		check(t, err)
		if len(page) > w.Limit {
			t.Fatalf("a page of %d has %d runs", w.Limit, len(page))
		}
		ids = append(ids, idsOf(page)...)
		if next == (runs.Place{}) {
			return ids
		}
		w.After = next
	}
}

func idsOf(all []ledger.Run) (ids []string) {
	for _, r := range all {
		ids = append(ids, string(r.ID))
	}
	return ids
}

// TestFacadePagesOfOneTime: runs of one millisecond are listed once each, by their ids.
func TestFacadePagesOfOneTime(t *testing.T) {
	l, rdb := newLedger(t)
	ctx := t.Context()
	var want []string
	for i := range 6 {
		id := fmt.Sprint("r", i)
		tenant := fmt.Sprint("t", i%2)
		run := submitInCore(t, l, ledger.NewRun{ID: ledger.RunID(id), Kind: updates, Tenant: ledger.Tenant(tenant)}, 1).run
		check(t, rdb.ZAdd(ctx, "orgops:v3:{tenant:"+tenant+"}:runs",
			redis.Z{Score: 1000, Member: id + "/" + string(run.Incarnation)}).Err())
		want = append([]string{id}, want...)
	}
	for most := range 7 {
		if have := pages(ctx, t, l, runs.Query{Limit: most + 1}); !slices.Equal(have, want) {
			t.Errorf("pages of %d: %v, want %v", most+1, have, want)
		}
	}
}

// TestFacadePagesOfMany: a tenant's list is read a part at a time.
func TestFacadePagesOfMany(t *testing.T) {
	l, _ := newLedger(t)
	ctx := t.Context()
	for i := range 230 {
		_, _, err := l.Core().Create(ctx, ledger.NewRun{ID: ledger.RunID(fmt.Sprint("r", i)), Kind: updates, Tenant: "acme"})
		check(t, err)
	}
	have := pages(ctx, t, l, runs.Query{Limit: 50})
	slices.Sort(have)
	if have = slices.Compact(have); len(have) != 230 {
		t.Errorf("%d runs on all pages", len(have))
	}
}

// TestFacadeEnd: the counts of a run that has just ended are exact, before a dispatcher
// has summed them.
func TestFacadeEnd(t *testing.T) {
	l, _ := newLedger(t)
	core := submitInCore(t, l, ledger.NewRun{ID: "new", Kind: updates, Tenant: "acme"}, 1, 1)
	core.end(0, done())
	core.end(1, ledger.Result{Outcome: "failed"})
	list, err := l.List(t.Context())
	check(t, err)
	for _, r := range []ledger.Run{get(t, l, "new"), list[0]} {
		if !r.Ended() || r.Settled() != 2 || r.Counts["done"] != 1 || r.Counts["failed"] != 1 {
			t.Errorf("%+v", r)
		}
	}
	if all, err := l.Open(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("open: %v, %v", all, err)
	}
	if open, err := l.OpenByTenant(t.Context()); err != nil || len(open) != 0 {
		t.Errorf("open: %v, %v", open, err)
	}
}
