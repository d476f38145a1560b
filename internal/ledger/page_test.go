package ledger_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/internal/ledger"
	"orgops/internal/redistest"
)

// pages returns the ids of the runs of all pages.
func (w *worker) pages(q ledger.Query) (ids []ledger.RunID) {
	w.t.Helper()
	for {
		page, next, err := w.Page(w.t.Context(), q)
		if err != nil || len(page) > q.Limit {
			w.t.Fatalf("a page of %d has %d runs, %v", q.Limit, len(page), err)
		}
		ids = append(ids, idsOf(page)...)
		if next == (ledger.Place{}) {
			return ids
		}
		var ok bool
		if q.After, ok = ledger.ParsePlace(next.String()); !ok || q.After != next {
			w.t.Fatalf("place %s is read as %+v", next, q.After)
		}
	}
}

func idsOf(all []ledger.Run) (ids []ledger.RunID) {
	for _, r := range all {
		ids = append(ids, r.ID)
	}
	return ids
}

// createAt creates a run of a tenant whose entry has that time.
func (w *worker) createAt(t ledger.Tenant, id string, ms int) {
	w.t.Helper()
	run, _, err := w.Create(w.t.Context(), ledger.NewRun{ID: ledger.RunID(id), Tenant: t, Kind: kind})
	if err == nil {
		z := redis.Z{Score: float64(ms), Member: id + "/" + string(run.Incarnation)}
		err = w.rdb.ZAdd(w.t.Context(), ledger.ListKey(t, "runs"), z).Err()
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// TestPages: pages of several tenants are the list, whatever their size, also where many runs have
// one time, or most are of one tenant.
func TestPages(t *testing.T) {
	for name, c := range map[string]struct {
		n  int
		of func(i int) (t string, ms int)
	}{
		"a time each":             {12, func(i int) (string, int) { return fmt.Sprint("t", i%4), 1000 + i }},
		"one time":                {12, func(i int) (string, int) { return fmt.Sprint("t", i%2), 1000 }},
		"one time, one tenant":    {60, func(int) (string, int) { return "t", 1000 }},
		"most of one tenant":      {60, func(i int) (string, int) { return fmt.Sprint("t", max(0, 10-i)), 1000 + i/7 }},
		"ids that begin the same": {60, func(i int) (string, int) { return fmt.Sprint("t", i%3), 1000 + i%2 }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorker(t)
			type placed struct {
				id string
				ms int
			}
			var want []placed
			for i := range c.n {
				id := fmt.Sprint("r", strings.Repeat("-", i%3), i/3)
				tenant, ms := c.of(i)
				w.createAt(ledger.Tenant(tenant), id, ms)
				want = append(want, placed{id, ms})
			}
			slices.SortFunc(want, func(a, b placed) int { // as Redis orders the entries
				if a.ms != b.ms {
					return b.ms - a.ms
				}
				return strings.Compare(b.id+"/", a.id+"/")
			})
			var ids []ledger.RunID
			for _, p := range want {
				ids = append(ids, ledger.RunID(p.id))
			}
			for limit := range 13 {
				if have := w.pages(ledger.Query{Limit: limit + 1}); !slices.Equal(have, ids) {
					t.Errorf("pages of %d: %v, want %v", limit+1, have, ids)
				}
			}
			all, err := w.Runs(t.Context())
			if err != nil || !slices.Equal(idsOf(all), ids) {
				t.Errorf("list %v, %v; want %v", idsOf(all), err, ids)
			}
		})
	}
}

// TestPagesOfOneID: runs of several tenants that have one id and one time, as those of sweeps at
// one tick, are each on one page.
func TestPagesOfOneID(t *testing.T) {
	w := newWorker(t)
	const tenants = 7
	for i := range tenants {
		w.createAt(ledger.Tenant(fmt.Sprint("t", i)), "sweep", 1000)
	}
	for limit := 1; limit <= tenants; limit++ {
		if have := w.pages(ledger.Query{Limit: limit}); len(have) != tenants {
			t.Errorf("pages of %d have %d runs, want %d", limit, len(have), tenants)
		}
	}
}

// TestPageOfACaller checks that pages of a caller have each of its runs, in order, that the header
// of no other run is read, also where many tenants have a few of them and one has most, and that
// nothing is left of the list when the last run is deleted.
func TestPageOfACaller(t *testing.T) {
	w := newWorker(t)
	ctx := t.Context()
	runs := map[string][]ledger.Run{}
	create := func(t ledger.Tenant, id, caller string, single bool) {
		w.t.Helper()
		n := ledger.NewRun{ID: ledger.RunID(id), Tenant: t, Kind: kind,
			Description: ledger.Description{Caller: caller, Single: single}}
		run, _, err := w.Create(ctx, n)
		if err != nil {
			w.t.Fatal(err)
		}
		if !single {
			runs[caller] = append(runs[caller], run)
		}
	}
	for i := range 20 {
		create(ledger.Tenant(fmt.Sprint("tenant-", i)), fmt.Sprintf("of-%02d", i), "billing", false)
	}
	callers := []string{"billing", "crm", "Zoë {x}", ""}
	for i := range redistest.Amount(200, 600) {
		create(tenant, fmt.Sprintf("run-%04d", i), callers[i%len(callers)], false)
	}
	create(tenant, "single", "crm", true)
	if _, _, err := w.SubmitRow(ctx, ledger.NewRun{ID: "row", Tenant: tenant, Kind: kind,
		Description: ledger.Description{Caller: "crm"}}, []byte("row")); err != nil {
		t.Fatal(err)
	}

	reader, read := *w, map[string]bool{}
	rdb := redistest.New(t)
	rdb.AddHook(redistest.Around(func(_ context.Context, run func() error, cmds ...redis.Cmder) error {
		for _, cmd := range cmds {
			if cmd.Name() == "hgetall" {
				read[cmd.Args()[1].(string)] = true
			}
		}
		return run()
	}))
	reader.Ledger = ledger.New(rdb)
	for _, caller := range callers[:3] {
		of := runs[caller]
		slices.SortFunc(of, func(a, b ledger.Run) int {
			return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(b.ID, a.ID))
		})
		for _, q := range []ledger.Query{{Limit: 100}, {Limit: 7, MaxRead: 11}, {Limit: 7, Open: true}} {
			clear(read)
			q.Caller = caller
			if got := reader.pages(q); !slices.Equal(got, idsOf(of)) {
				t.Errorf("%q: runs %q, want %q", caller, got, idsOf(of))
			}
			if len(read) != len(of) {
				t.Errorf("%q: the headers of %d runs are read, want %d", caller, len(read), len(of))
			}
		}
	}
	one := func(r ledger.Run) bool { return r.ID == "run-0005" }
	if got := w.pages(ledger.Query{Caller: "crm", Limit: 7, Match: one}); !slices.Equal(got, []ledger.RunID{"run-0005"}) {
		t.Errorf("runs %q of the caller that match, want one", got)
	}
	if got := w.pages(ledger.Query{Caller: "cr", Limit: 7}); len(got) > 0 {
		t.Errorf("runs %q of no caller", got)
	}
	for _, of := range runs {
		for _, run := range of {
			if err := w.Delete(ctx, run.Tenant, run.ID); err != nil {
				t.Fatal(err)
			}
		}
	}
	if left := redistest.Keys(t, "*:runs_of:*"); len(left) > 0 {
		t.Errorf("keys %q are left when all runs are deleted", left)
	}
	for _, text := range []string{"x", "1-", "-a", "1/a/b", "1/a/b/", "0/acme/b/aaaaaaaaaaaaaaaa",
		"1/a/b/aaaaaaaaaaaaaaaa/c",
		"1/acme/" + strings.Repeat("a", 65) + "/aaaaaaaaaaaaaaaa"} {
		if p, ok := ledger.ParsePlace(text); ok {
			t.Errorf("%q is the place %+v", text, p)
		}
	}
}

// TestListsOfTenants: lists are of the tenants that are named, or of all.
func TestListsOfTenants(t *testing.T) {
	w := newWorker(t)
	ctx := t.Context()
	for _, w.tenant = range []ledger.Tenant{"acme", "beta"} {
		w.submit("run", 2)
		w.submit(ledger.RunID("of-"+w.tenant), 1)
		n := single("single")
		n.Tenant = w.tenant
		w.submitRow(n)
		run, err := w.Run(ctx, w.tenant, "single")
		if err != nil {
			t.Fatal(err)
		}
		w.settleAll(segment(run, 0)) // it is not finished
	}
	for name, c := range map[string]struct {
		list func(...ledger.Tenant) ([]ledger.Run, error)
		want []string
	}{
		"runs":    {func(t ...ledger.Tenant) ([]ledger.Run, error) { return w.Runs(ctx, t...) }, []string{"of", "run"}},
		"open":    {func(t ...ledger.Tenant) ([]ledger.Run, error) { return w.OpenRuns(ctx, t...) }, []string{"of", "run"}},
		"singles": {func(t ...ledger.Tenant) ([]ledger.Run, error) { return w.OpenSingles(ctx, t...) }, []string{"single"}},
		"all": {
			func(t ...ledger.Tenant) ([]ledger.Run, error) { return w.All(ctx, t...) }, []string{"of", "run", "single"},
		},
	} {
		for _, tenants := range [][]ledger.Tenant{{"acme"}, {"beta"}, nil} {
			all, err := c.list(tenants...)
			var have []string
			for _, r := range all {
				if len(tenants) > 0 && r.Tenant != tenants[0] {
					t.Errorf("%s of %v: %+v", name, tenants, r)
				}
				id, _, _ := strings.Cut(string(r.ID), "-")
				have = append(have, id)
			}
			slices.Sort(have)
			want := c.want
			if tenants == nil {
				want = slices.Sorted(slices.Values(append(slices.Clone(want), want...)))
			}
			if err != nil || !slices.Equal(have, want) {
				t.Errorf("%s of %v: %v, %v; want %v", name, tenants, have, err, want)
			}
		}
	}
	singles, err := w.CountSingles(ctx)
	if err != nil || len(singles) != 2 || singles["acme"] != 1 || singles["beta"] != 1 {
		t.Errorf("single rows %v, %v", singles, err)
	}
	open, err := w.OpenByTenant(ctx)
	if want := (ledger.OpenCounts{Runs: 3, Rows: 4}); err != nil || len(open) != 2 || open["beta"] != want {
		t.Errorf("open %v, %v; want %v", open, err, want)
	}
	_, err = w.Get(ctx, "", "run")
	if several, ok := errors.AsType[*ledger.AmbiguousError](err); !ok ||
		!slices.Equal(several.Tenants, []ledger.Tenant{"acme", "beta"}) {
		t.Errorf("without a tenant: %v, want both tenants", err)
	}
	if of, err := w.Get(ctx, "beta", "run"); err != nil || of.Tenant != "beta" {
		t.Errorf("with a tenant: %+v, %v", of, err)
	}
	if of, err := w.Get(ctx, "", "of-beta"); err != nil || of.Tenant != "beta" {
		t.Errorf("the only one: %+v, %v", of, err)
	}
	if of, err := w.Get(ctx, "acme", "of-beta"); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("of another tenant: %+v, %v", of, err)
	}
}

// TestPagesByLists: pages by tenant, time and whether runs are finished are those of a filter over
// all runs, whatever their size.
func TestPagesByLists(t *testing.T) {
	w := newWorker(t)
	for i := range 24 {
		w.createAt(ledger.Tenant(fmt.Sprint("t", i%3)), fmt.Sprint("r", i), 1000+i/2)
	}
	page := func(q ledger.Query) []ledger.RunID {
		q.Limit = 2
		return w.pages(q)
	}
	ids := func(of ...int) (ids []ledger.RunID) {
		for _, i := range of {
			ids = append(ids, ledger.RunID(fmt.Sprint("r", i)))
		}
		return ids
	}
	mine := func(t ledger.Tenant) bool { return t == "t1" }
	for name, test := range map[string]struct {
		q    ledger.Query
		want []ledger.RunID
	}{
		"tenant":     {ledger.Query{Tenant: mine}, ids(22, 19, 16, 13, 10, 7, 4, 1)},
		"no tenant":  {ledger.Query{Tenant: func(ledger.Tenant) bool { return false }}, nil},
		"since":      {ledger.Query{Since: time.UnixMilli(1010)}, ids(23, 22, 21, 20)},
		"until":      {ledger.Query{Until: time.UnixMilli(1002)}, ids(3, 2, 1, 0)},
		"both":       {ledger.Query{Since: time.UnixMilli(1002), Until: time.UnixMilli(1004)}, ids(7, 6, 5, 4)},
		"all of one": {ledger.Query{Tenant: mine, Since: time.UnixMilli(1002), Until: time.UnixMilli(1004)}, ids(7, 4)},
	} {
		if got := page(test.q); !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
	if got := page(ledger.Query{Open: true, Until: time.UnixMilli(1002)}); len(got) != 24 { // no time counts
		t.Errorf("open: %v", got)
	}
	if err := w.Cancel(t.Context(), "t0", "r3"); err != nil {
		t.Fatal(err)
	}
	if err := w.Finish(t.Context(), "t0", "r3"); err != nil {
		t.Fatal(err)
	}
	if got := page(ledger.Query{Open: true}); len(got) != 23 || slices.Contains(got, "r3") {
		t.Errorf("open, after the end of r3: %v", got)
	}
}
