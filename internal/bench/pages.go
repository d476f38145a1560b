package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	"orgops/internal/intake"
	"orgops/internal/ops"
	"orgops/internal/runs"
	"orgops/tasks"
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
// of its rows settled badly, a third is open and waits, a third is done.
func measurePages(ctx context.Context, s *store, load pagesLoad, rows int, out *report, progress io.Writer) (err error) {
	rdb, err := s.client()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rdb.Close(), s.empty(context.WithoutCancel(ctx))) }()
	ledger := runs.New(rdb)
	fmt.Fprintf(progress, "making %d runs, one of them of %d rows\n", load.Runs, rows)
	if err := manyRuns(ctx, ledger, load.Runs, rows); err != nil {
		return err
	}
	pages := ops.Pages(ops.Config{Redis: rdb, Ledger: ledger, Intake: intake.New(rdb, ledger), Tenants: []ops.Tenant{{Name: "default"}}})
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

// manyRuns makes the runs, the large one the newest.
func manyRuns(ctx context.Context, l *runs.Ledger, others, rows int) error {
	begun := time.Now().Add(-time.Hour)
	for i := range others - 1 {
		id := fmt.Sprintf("run-%d", i)
		if _, _, err := l.Create(ctx, runs.Run{ID: id, Kind: tasks.TypeVerify, Tenant: "default", CreatedAt: begun.Add(time.Duration(i) * time.Millisecond)}); err != nil {
			return err
		}
		if i%2 == 0 {
			if err := l.Seal(ctx, id, 0); err != nil {
				return err
			}
		}
	}
	large := runs.Run{ID: "large", Kind: tasks.TypeVerify, Tenant: "default", Format: intake.FormatCSV, Columns: []string{"organization_id", "discovery_domain_id"}}
	if _, _, err := l.Create(ctx, large); err != nil {
		return err
	}
	for from := 0; from < rows; from += runs.ChunkRows {
		if err := largeChunk(ctx, l, from, min(rows-from, runs.ChunkRows)); err != nil {
			return err
		}
	}
	return l.Seal(ctx, "large", int64(rows))
}

// largeChunk stores rows of the large run, and says what became of them.
func largeChunk(ctx context.Context, l *runs.Ledger, from, rows int) error {
	stored := make([][]byte, rows)
	var done, refused, open []int64
	for i := range stored {
		item := int64(from + i)
		stored[i] = fmt.Appendf(nil, `["org_%d","dom_%d"]`, item/10, item)
		switch item % 3 {
		case 0:
			done = append(done, item)
		case 1:
			refused = append(refused, item)
		default:
			open = append(open, item)
		}
	}
	reason := fmt.Sprintf("not_yet: There is no TXT record at _ss-verification.org_%d.example: the name does not exist.", from)
	return errors.Join(
		l.StoreRows(ctx, "large", int64(from), stored),
		l.Settle(ctx, "large", tasks.TypeVerify, 0, done, string(tasks.Done), ""),
		l.Settle(ctx, "large", tasks.TypeVerify, 0, refused, string(tasks.Refused), "404: the discovery domain does not exist"),
		l.Note(ctx, "large", 0, open, reason, time.Now().Add(time.Hour)),
	)
}
