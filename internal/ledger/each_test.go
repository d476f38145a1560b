package ledger_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"orgops/internal/ledger"
	"orgops/internal/redistest"
)

// each returns the selected rows of a run in short, from a number on.
func (w *worker) each(run ledger.Run, which ledger.Selection, first int64) (rows []string) {
	w.t.Helper()
	for r, err := range w.Each(w.t.Context(), run, which, first) {
		if err != nil {
			w.t.Fatal(err)
		}
		text := fmt.Sprintf("%d %s", r.Item, r.Phase)
		if r.Phase == ledger.PhaseSettled {
			text = fmt.Sprintf("%d %s:%s:%s", r.Item, r.Result.Outcome, r.Result.Detail, r.Result.Evidence)
		}
		want := fmt.Sprint("row ", r.Item)
		if which == ledger.WithResult {
			want = ""
		}
		if string(r.Content) != want {
			w.t.Errorf("row %d is %q, want %q", r.Item, r.Content, want)
		}
		rows = append(rows, text)
	}
	return rows
}

// TestEach: rows count over the segments of their run, whichever are selected.
func TestEach(t *testing.T) {
	w := newWorker(t)
	run := w.submit("a", 3, 1, 5)
	done := ledger.Result{Outcome: ledger.Done}
	e := w.takeRows(segment(run, 0), 3)
	w.end(segment(run, 0), e, ledger.RowEnd{Row: 0, Ending: done},
		ledger.RowEnd{Row: 1, Ending: ledger.Result{Outcome: "refused", Detail: "no"}},
		ledger.RowEnd{Row: 2, Ending: ledger.Waiting{Stage: ledger.StageCheck, After: time.Minute}})
	w.settle(segment(run, 1), w.takeRows(segment(run, 1), 1), 0)
	e = w.takeRows(segment(run, 2), 3)
	proven := ledger.Result{Outcome: ledger.Done, Evidence: []byte("proof")}
	w.end(segment(run, 2), e, ledger.RowEnd{Row: 0, Ending: proven})
	w.end(segment(run, 2), e, ledger.RowEnd{Row: 1, Ending: ledger.GiveBack{}})
	w.release(segment(run, 2), ledger.Quota{First: 1})

	every := []string{"0 done::", "1 refused:no:", "2 waiting", "3 done::", "4 done::proof", "5 waiting", "6 in progress",
		"7 released", "8 queued"}
	part := func(items ...int) (rows []string) {
		for _, i := range items {
			rows = append(rows, every[i])
		}
		return rows
	}
	named := ledger.Run{Tenant: tenant, ID: "a"} // the run is read anew
	for name, c := range map[string]struct{ have, want []string }{
		"every row":              {w.each(named, ledger.Every, 0), every},
		"from the last":          {w.each(named, ledger.Every, 8), every[8:]},
		"from a later segment":   {w.each(named, ledger.Every, 3), every[3:]},
		"behind the last":        {w.each(named, ledger.Every, 9), nil},
		"open":                   {w.each(named, ledger.Unsettled, 0), part(2, 5, 6, 7, 8)},
		"open, from a row":       {w.each(named, ledger.Unsettled, 6), part(6, 7, 8)},
		"with a result":          {w.each(named, ledger.WithResult, 0), part(1, 4)},
		"with a result, later":   {w.each(named, ledger.WithResult, 2), part(4)},
		"with a result, no more": {w.each(named, ledger.WithResult, 5), nil},
	} {
		if !reflect.DeepEqual(c.have, c.want) {
			t.Errorf("%s: %q, want %q", name, c.have, c.want)
		}
	}
	for number, first := range []int64{0, 3, 4} {
		if item, err := w.ItemOf(t.Context(), segment(run, number), 0); err != nil || item != first {
			t.Errorf("row 0 of segment %d is row %d of the run, %v; want %d", number, item, err, first)
		}
	}
	w.must(w.Cancel, "a")
	every[2], every[5], every[7], every[8] = "2 cancelled::", "5 cancelled::", "7 cancelled::", "8 cancelled::"
	if have := w.each(named, ledger.WithResult, 0); !reflect.DeepEqual(have, part(1, 2, 4, 5, 7, 8)) {
		t.Errorf("with a result after a cancel: %q", have)
	}
}

// TestEachOfMany: rows of several pages are read once each, and settled ones skipped.
func TestEachOfMany(t *testing.T) {
	w := newWorker(t)
	run := w.submit("a", 300, 1, 500)
	last := segment(run, 2)
	for range 2 {
		e := w.takeRows(last, 240)
		w.settle(last, e, numbersOf(e)...)
	}
	rows := w.each(run, ledger.Every, 290)
	if len(rows) != 511 || rows[0] != "290 queued" || rows[10] != "300 queued" || rows[510] != "800 queued" {
		t.Errorf("%d rows from 290 on: %q", len(rows), rows)
	}
	open := w.each(run, ledger.Unsettled, 299)
	if len(open) != 22 || open[0] != "299 queued" || open[1] != "300 queued" || open[2] != "781 queued" {
		t.Errorf("open rows %q", open)
	}
	for _, c := range []struct {
		first   int64
		n, want int
	}{{290, 20, 20}, {0, 801, 801}, {799, 20, 2}, {801, 1, 0}} {
		stored, err := w.Contents(t.Context(), run, c.first, c.n)
		if err != nil || len(stored) != c.want {
			t.Errorf("%d rows from %d on: %d, %v", c.n, c.first, len(stored), err)
		}
		for i, row := range stored {
			if want := fmt.Sprint("row ", c.first+int64(i)); string(row) != want {
				t.Errorf("%q, want %q", row, want)
			}
		}
	}
}

// TestEachOfNoRun: a run that does not exist is an error of every reader, and creates nothing.
func TestEachOfNoRun(t *testing.T) {
	w := newWorker(t)
	none := ledger.Run{Tenant: tenant, ID: "none"}
	for _, which := range []ledger.Selection{ledger.Every, ledger.Unsettled, ledger.WithResult} {
		n := 0
		for _, err := range w.Each(t.Context(), none, which, 0) {
			if n++; !errors.Is(err, ledger.ErrNotFound) {
				t.Errorf("selection %q: %v", which, err)
			}
		}
		if n != 1 {
			t.Errorf("selection %q: %d values, want an error", which, n)
		}
	}
	if _, err := w.Contents(t.Context(), none, 0, 1); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("contents: %v", err)
	}
	if keys := redistest.Keys(t, "*"); len(keys) > 0 {
		t.Errorf("keys %v", keys)
	}
	run := w.submit("a", 2, 1)
	for name, seg := range map[string]ledger.Segment{
		"another run": {Tenant: tenant, Run: "none", Incarnation: run.Incarnation, Number: 1}, "no segment": segment(run, 4),
		"another incarnation": {Tenant: tenant, Run: "a", Incarnation: "aaaaaaaaaaaaaaaa", Number: 1},
	} {
		if item, err := w.ItemOf(t.Context(), seg, 0); !errors.Is(err, ledger.ErrNotFound) {
			t.Errorf("row %d of %s, %v", item, name, err)
		}
	}
	w.stage(w.create("staged"), 0)
	if rows := w.each(ledger.Run{Tenant: tenant, ID: "staged"}, ledger.Every, 0); len(rows) != 0 {
		t.Errorf("rows of a staged run: %q", rows)
	}
}

// TestTextsAreSafe: text of strangers is read with escapes, on every way to a reader.
func TestTextsAreSafe(t *testing.T) {
	const hostile, safe = "a\tb\x1b[31m\u202e", `a\tb\x1b[31m\u202e`
	w := newWorker(t)
	ctx := t.Context()
	n := single("a")
	n.Label, n.Caller = hostile, hostile
	created, _, err := w.Create(ctx, n)
	if err != nil {
		t.Fatal(err)
	}
	again, _, err := w.Create(ctx, n)
	if err != nil {
		t.Fatal(err)
	}
	w.stage(created, 0)
	sums, err := w.Sums(ctx, ledger.Run{Tenant: tenant, ID: "a", Incarnation: created.Incarnation, Segments: 1})
	if err != nil {
		t.Fatal(err)
	}
	committed, err := w.Commit(ctx, created, sums)
	if err != nil {
		t.Fatal(err)
	}
	seg := segment(committed, 0)
	e := w.takeRows(seg, 1)
	w.end(seg, e, ledger.RowEnd{Ending: ledger.Result{Outcome: "refused", Detail: hostile + strings.Repeat("x", 600)}})
	read := map[string]ledger.Run{"created": created, "created again": again, "committed": committed}
	read["by id"] = w.get("a")
	for name, list := range map[string]func() ([]ledger.Run, error){
		"runs": func() ([]ledger.Run, error) { return w.Runs(ctx) },
		"open": func() ([]ledger.Run, error) { return w.OpenRuns(ctx, tenant) },
		"all":  func() ([]ledger.Run, error) { return w.All(ctx) },
		"page": func() ([]ledger.Run, error) {
			page, _, err := w.Page(ctx, ledger.Query{Limit: 1})
			return page, err
		},
	} {
		runs, err := list()
		if err != nil || len(runs) != 1 {
			t.Fatalf("%s: %d runs, %v", name, len(runs), err)
		}
		read[name] = runs[0]
	}
	for name, run := range read {
		if run.Label != safe || run.Caller != safe {
			t.Errorf("%s: label %q and caller %q, want %q", name, run.Label, run.Caller, safe)
		}
	}
	for _, which := range []ledger.Selection{ledger.Every, ledger.WithResult} {
		for r, err := range w.Each(ctx, committed, which, 0) {
			if d := r.Result.Detail; err != nil || !strings.HasPrefix(d, safe+"x") || len([]rune(d)) > 520 {
				t.Errorf("selection %q: detail %q, %v", which, d, err)
			}
			break
		}
	}
}
