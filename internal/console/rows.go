package console

import (
	"context"
	"net/http"
	"strconv"

	"orgops/internal/intake"
	"orgops/internal/ledger"
	"orgops/internal/results"
	"orgops/internal/status"
	"orgops/internal/view"
)

const (
	// rowsLooked is how many settled rows are searched for the rows of a page, and
	// rowsSearched how many if a text is searched, which reads the stored rows: about a
	// second, each.
	rowsLooked   = 200_000
	rowsSearched = 20_000
)

// rowsQuery selects rows of the run.
type rowsQuery struct {
	tenant, which, cause, text string

	from int64 // the first row
	live bool  // a request of the script, to keep the page up to date
}

func rowsQueryOf(r *http.Request) (q rowsQuery, ok bool) {
	query := r.URL.Query()
	q = rowsQuery{tenant: query.Get("tenant"), which: query.Get("outcome"), cause: query.Get("cause"),
		text: query.Get("q"), live: r.Header.Get("Orgops-Live") != ""}
	if text := query.Get("from"); text != "" {
		var err error
		if q.from, err = strconv.ParseInt(text, 10, 64); err != nil || q.from < 0 {
			return q, false
		}
	}
	return q, true
}

// path returns the page of the same selection from this row on.
func (q rowsQuery) path(run ledger.RunID, from int64) string {
	return runLink(run, "", q.tenant, "outcome", q.which, "cause", q.cause, "q", q.text,
		"from", strconv.FormatInt(from, 10))
}

// foundRows are the failed rows that a search finds, and that can be retried.
type foundRows struct {
	Rows int64
	Cut  bool // they are too many to be counted by a page
}

// mayRetry reports whether the query searches failed rows, some of which may be retried.
func (q rowsQuery) mayRetry(run view.Run) bool {
	if q.cause == "" && q.text == "" {
		return false
	}
	switch q.which {
	case status.Unfinished, status.EveryRow, status.FailedRows:
		return offersOf(run.Run).Retry.Settled() > 0
	}
	return results.CanRetry(run.Run, ledger.Outcome(q.which))
}

// retried returns the options by which the rows that the query finds are retried, and how many
// these are. Those of a cause are selected by it, also the ones that fail for it meanwhile, so that
// the same command completes the retry; those with a text by their numbers.
func (q rowsQuery) retried(ctx context.Context, run view.Run) (o intake.RetryOptions, found *foundRows, err error) {
	found = &foundRows{}
	if q.text != "" {
		o.Items, found.Cut, err = run.FoundFailed(ctx, status.RowsQuery{
			Which: q.which, Reason: q.cause, Text: q.text, MaxRead: rowsSearched})
		if err != nil || found.Cut || len(o.Items) == 0 { // no numbers would be all rows
			return o, found, err
		}
	} else {
		o.Reason = q.cause
		if results.CanRetry(run.Run, ledger.Outcome(q.which)) { // else it is a selection of several
			o.Outcomes = []string{q.which}
		}
		if found.Cut = status.Failed(run.Run) > rowsLooked; found.Cut {
			return o, found, nil
		}
	}
	found.Rows, err = run.Retryable(ctx, o)
	return o, found, err
}
