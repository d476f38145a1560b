package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	"orgops/internal/console"
	"orgops/internal/engine"
	"orgops/internal/engine/kinds"
	"orgops/internal/intake"
	"orgops/internal/ledger"
	"orgops/internal/runs"
	"orgops/internal/web"
)

// pagesLoad is what the operator's pages are looked at with.
type pagesLoad struct {
	Runs  int `noenv:"true" default:"1000" help:"Runs that there are."`
	Loads int `noenv:"true" default:"30" help:"How often each page is loaded."`
}

func (l pagesLoad) check() error {
	if l.Runs < 1 || l.Loads < 1 {
		return fmt.Errorf("runs, loads: want 1 or more of each, got %d and %d", l.Runs, l.Loads)
	}
	return nil
}

// pagesResult is how long a page takes, from the request to its last byte.
type pagesResult struct {
	Benchmark string  `json:"benchmark"` // "pages"
	Page      string  `json:"page"`
	Runs      int     `json:"runs"`
	Rows      int     `json:"rows"` // of the large run
	Loads     int     `json:"loads"`
	P50       float64 `json:"p50_ms"`
	P90       float64 `json:"p90_ms"`
	Max       float64 `json:"max_ms"`
	Bytes     int     `json:"bytes"`
	about
}

// measurePages loads the operator's pages over many runs, one of them large: a third
// of its rows failed, a third is open, a third is done.
func measurePages(ctx context.Context, s *store, load pagesLoad, rows int, out *report, progress io.Writer) (err error) {
	rdb, err := s.client()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rdb.Close(), s.empty(context.WithoutCancel(ctx))) }()
	l := runs.New(rdb)
	fmt.Fprintf(progress, "making %d runs, one of them of %d rows\n", load.Runs, rows)
	if err := manyRuns(ctx, l, load.Runs, rows); err != nil {
		return err
	}
	var served console.Tenant
	served.Settings.Tenant = tenantName
	pages := console.Pages(console.Config{Redis: rdb, Ledger: l, Intake: intake.New(rdb, l), Tenants: func() []console.Tenant { return []console.Tenant{served} }, Unsigned: web.Reader})
	if !out.json {
		fmt.Fprintf(out.out, "\npages: from the request to the last byte, in ms; %d runs, the large one of %d rows\n", load.Runs, rows)
		fmt.Fprintf(out.out, pagesLine, "LOADS", "P50", "P90", "MAX", "BYTES", "PAGE")
	}
	for _, path := range []string{"/runs", "/runs?state=ended", "/runs?tenant=none", "/runs/large", "/runs/large?q=nowhere"} {
		result, err := loadPage(ctx, pages, path, load.Loads)
		if err != nil {
			return err
		}
		result.Runs, result.Rows = load.Runs, rows
		if err := out.page(result); err != nil {
			return err
		}
	}
	return nil
}

const pagesLine = "%5v  %7v  %7v  %7v  %8v   %v\n"

func (r *report) page(result pagesResult) error {
	if r.json {
		result.about = r.about
		return r.encode(result)
	}
	ms := func(f float64) string { return fmt.Sprintf("%.1f", f) }
	_, err := fmt.Fprintf(r.out, pagesLine, result.Loads, ms(result.P50), ms(result.P90), ms(result.Max), result.Bytes, result.Page)
	return err
}

func loadPage(ctx context.Context, pages http.Handler, path string, loads int) (pagesResult, error) {
	result := pagesResult{Benchmark: "pages", Page: path, Loads: loads}
	var took []time.Duration
	for range loads {
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil)
		r.Host = "127.0.0.1"
		w := httptest.NewRecorder()
		begun := time.Now()
		pages.ServeHTTP(w, r)
		took = append(took, time.Since(begun))
		if w.Code != http.StatusOK {
			return result, fmt.Errorf("GET %s: status %d: %.300q", path, w.Code, w.Body)
		}
		result.Bytes = w.Body.Len()
	}
	result.P50, result.P90, result.Max = milliseconds(quantile(took, 0.5)), milliseconds(quantile(took, 0.9)), milliseconds(quantile(took, 1))
	return result, nil
}

// manyRuns creates the runs, the large one the newest.
func manyRuns(ctx context.Context, l *runs.Ledger, others, rows int) error {
	for i := range others - 1 {
		header, _, err := l.Core().Create(ctx, ledger.NewRun{ID: ledger.RunID(fmt.Sprintf("run-%d", i)), Kind: kinds.Verify, Tenant: tenantName})
		if err != nil {
			return err
		}
		if i%2 == 0 {
			if _, err := l.Cancel(ctx, header.ID); err != nil {
				return err
			}
		}
	}
	header, _, err := l.Core().Create(ctx, ledger.NewRun{
		ID: "large", Kind: kinds.Verify, Tenant: tenantName,
		Description: ledger.Description{Format: intake.FormatCSV, Columns: []string{"organization_id", "discovery_domain_id"}},
	})
	if err != nil {
		return err
	}
	stager, err := l.Core().NewStager(ctx, header)
	if err != nil {
		return err
	}
	for item := range rows {
		if err := addRow(ctx, stager, item); err != nil {
			return err
		}
	}
	_, err = stager.Commit(ctx)
	return err
}

// addRow adds a row of the large run: of three one is done, one is refused and one open.
func addRow(ctx context.Context, stager *ledger.Stager, item int) error {
	row := fmt.Appendf(nil, `{"organization_id":"org_%d","discovery_domain_id":"dom_%d"}`, item/10, item)
	switch item % 3 {
	case 0:
		return stager.AddSettled(ctx, row, ledger.Result{Outcome: ledger.Done})
	case 1:
		return stager.AddSettled(ctx, row, ledger.Result{Outcome: engine.Refused, Detail: "404: the discovery domain does not exist"})
	}
	return stager.Add(ctx, row)
}
