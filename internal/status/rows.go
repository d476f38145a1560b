package status

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/internal/evidence"
	"orgops/internal/ledger"
	"orgops/internal/results"
	"orgops/internal/sweep"
	"orgops/tasks"
)

// Row describes a row of a run.
type Row struct {
	Item      int64          `json:"item"`              // from 0
	Name      string         `json:"row,omitempty"`     // its identifiers, safe to print
	Outcome   ledger.Outcome `json:"outcome,omitempty"` // "": it is open
	Reason    string         `json:"reason,omitempty"`  // of the outcome, or why it is open
	NextCheck time.Time      `json:"next_check,omitzero"`
	SettledAt time.Time      `json:"settled_at,omitzero"`  // zero: it is open, a cancel has settled it, or it is not known
	RetriedBy ledger.RunID   `json:"retried_by,omitempty"` // the run that repeats it
	// RevokedBy is the run that has revoked its domain since a sweep found it lost; see
	// [ReadRevoked].
	RevokedBy ledger.RunID `json:"revoked_by,omitempty"`

	// MayRetry says that it can be submitted again: see [results.MayRetry].
	MayRetry bool `json:"-"`
	// The ids of these as they were submitted; "": the row names none.
	Organization, Domain string `json:"-"`
}

// Well reports whether the row succeeded.
func (row Row) Well() bool { return ledger.Succeeded(row.Outcome) }

// settledRow describes a settled row of the run without its name.
func settledRow(r ledger.Run, row ledger.RowState) Row {
	may, by := results.MayRetry(r, row)
	settled := Row{
		Item: row.Item, Outcome: row.Result.Outcome, Reason: row.Result.Detail, SettledAt: row.SettledAt,
		RetriedBy: by.ID, MayRetry: may,
	}
	// An update that is done says what it has replaced.
	if r.Kind == tasks.TypeUpdate && settled.Reason == "" {
		if e, err := evidence.Read(row.Result.Evidence); err == nil && e.Before != nil {
			settled.Reason = "before: " + e.Before.String()
		}
	}
	return settled
}

// openRow describes an open row of the run without its name. If the run is stopped, that is the
// reason.
func openRow(r ledger.Run, item int64, open evidence.Open) Row {
	stopped := Stopped(r)
	if stopped == "" {
		return Row{Item: item, Reason: open.Reason, NextCheck: open.Next}
	}
	if open.Reason != "" {
		stopped += "; before: " + open.Reason
	}
	return Row{Item: item, Reason: stopped}
}

// String returns the row with its name, which an invalid one may not have.
func (row Row) String() string {
	return strings.TrimSuffix(fmt.Sprintf("row %d (%s)", row.Item, row.Name), " ()") + ": " + row.Text()
}

// Text returns the result of a settled row, or why an open one waits and when it is checked next.
func (row Row) Text() string {
	if row.Outcome == "" {
		return row.Waits() + nextAt("check", row.NextCheck)
	}
	text := string(row.Outcome)
	if row.RetriedBy != "" {
		text += " (retried by run " + string(row.RetriedBy) + ")"
	}
	text += revokedSince(row.RevokedBy)
	if row.Reason != "" { // a cancel has none
		text += ": " + row.Reason
	}
	return text
}

// revokedSince follows the outcome of a row whose domain that run has revoked; "" of none.
func revokedSince(by ledger.RunID) string {
	if by == "" {
		return ""
	}
	return " (revoked since by run " + string(by) + ")"
}

// Waits returns why the row is open.
func (row Row) Waits() string { return cmp.Or(row.Reason, "waiting for its turn") }

// RevokedBy returns a function that reads which runs have revoked domains of the tenant. Those of a
// revocation that was undone, or whose request has had no answer, are left out.
func RevokedBy(rdb redis.Cmdable, tenant ledger.Tenant) results.RevokedBy {
	const atOnce = 250 // states, of which a usual one has some 500 bytes
	store := sweep.NewStore(rdb, string(tenant))
	return func(ctx context.Context, domains []string) (map[string]ledger.RunID, error) {
		by := map[string]ledger.RunID{}
		for page := range slices.Chunk(domains, atOnce) {
			values, err := store.Domains(ctx, page)
			if err != nil {
				return nil, err
			}
			for i, value := range values {
				if value == nil {
					continue
				}
				state, unreadable := sweep.ReadState(value)
				if unreadable == nil && state.Revoked.Done() {
					by[page[i]] = ledger.RunID(state.Revoked.Run)
				}
			}
		}
		return by, nil
	}
}

// ReadRevoked sets which of the rows of a run are of domains that a sweep has found lost and that
// are revoked by now. It reads the states of lost domains alone.
func ReadRevoked(ctx context.Context, rdb redis.Cmdable, r ledger.Run, rows []Row) error {
	var lost []string
	for _, row := range rows {
		if row.Outcome == ledger.Lost && row.Domain != "" {
			lost = append(lost, row.Domain)
		}
	}
	if len(lost) == 0 {
		return nil
	}
	by, err := RevokedBy(rdb, r.Tenant)(ctx, lost)
	if err != nil {
		return err
	}
	for i, row := range rows {
		if row.Outcome == ledger.Lost {
			rows[i].RevokedBy = by[row.Domain]
		}
	}
	return nil
}

// OpenFrom returns the open rows from row first on. It holds few of them at a time.
func OpenFrom(ctx context.Context, l *ledger.Ledger, r ledger.Run, first int64) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		for open, err := range l.Each(ctx, r, ledger.Unsettled, first) {
			var row Row
			if err == nil {
				row, err = rowOf(r, open)
				row.name(r, open.Content)
			}
			if !yield(row, err) || err != nil {
				return
			}
		}
	}
}

// FirstFailed returns the first most failed rows.
func FirstFailed(ctx context.Context, l *ledger.Ledger, r ledger.Run, most int) ([]Row, error) {
	if Failed(r) == 0 {
		return nil, nil
	}
	failed, _, err := RowsPage(ctx, l, r, RowsQuery{Which: FailedRows, Limit: most})
	return failed, err
}

// The selections of a [RowsQuery] that are no outcome.
const (
	Unfinished = ""           // open and failed rows
	OpenRows   = "open"       // rows without a result
	FailedRows = "all failed" // rows of every outcome that is no success
	EveryRow   = "all"
)

// RowsQuery selects a page of rows.
type RowsQuery struct {
	From    int64  // the first row that may be on it
	Which   string // an outcome, or a selection
	Reason  string // the cause of a failed row, as [evidence.Cause.Is] reads it; empty: any
	Text    string // contained in a row's name or reason, in any case; empty: any
	Limit   int    // the most rows of the page
	MaxRead int    // the most rows to read; 0: no bound
}

// RowsPage returns rows, in their order. If there may be more, next is the row to continue from;
// else it is 0. A page for which MaxRead rows were read may be short of Limit, or empty. Of one
// outcome it reads no more rows than r counts.
func RowsPage(ctx context.Context, l *ledger.Ledger, r ledger.Run, w RowsQuery) (page []Row, next int64, err error) {
	// Open and failed rows together are read apart; of an outcome that no row has nothing is read.
	which := w.selection()
	counted := r.Counts[ledger.Outcome(w.Which)]
	switch {
	case w.Which == Unfinished:
		return unfinishedPage(ctx, l, r, w)
	case which == ledger.WithResult && w.Which != FailedRows && counted == 0:
		return nil, 0, nil
	}

	// The rows in order, until the page is full, enough are read, or all of the outcome are found.
	names := rowNames{ledger: l, run: r}
	read := 0
	found := int64(0)
	for stored, err := range l.Each(ctx, r, which, w.From) {
		var row Row
		if err == nil {
			row, err = rowOf(r, stored)
		}
		if err != nil {
			return nil, 0, err
		}
		if which == ledger.WithResult && row.Outcome == ledger.Done {
			continue // it has evidence, and no selection of rows with a result has it
		}
		if read++; w.MaxRead > 0 && read > w.MaxRead {
			return page, row.Item, nil
		}
		if !w.selects(row) {
			continue
		}
		if w.Reason != "" && !evidence.CauseOf(stored.Result).Is(w.Reason) {
			continue
		}
		if len(page) == w.Limit {
			return page, row.Item, nil
		}
		if err := names.name(ctx, &row, stored.Content); err != nil {
			return nil, 0, err
		}
		if strings.Contains(strings.ToLower(row.Name+"\n"+row.Reason), strings.ToLower(w.Text)) {
			page = append(page, row)
		}
		if found++; w.From == 0 && found == counted {
			return page, 0, nil
		}
	}
	return page, 0, nil
}

// selection returns the rows that are read.
func (w RowsQuery) selection() ledger.Selection {
	switch w.Which {
	case OpenRows:
		return ledger.Unsettled
	case EveryRow, string(ledger.Done):
		return ledger.Every
	}
	return ledger.WithResult
}

// selects reports whether a row has the outcome, or is of the selection.
func (w RowsQuery) selects(row Row) bool {
	switch w.Which {
	case EveryRow:
		return true
	case OpenRows:
		return row.Outcome == ""
	case FailedRows:
		return row.Outcome != "" && !row.Well()
	}
	return string(row.Outcome) == w.Which
}

// unfinishedPage returns open and failed rows, which are found by two indexes.
func unfinishedPage(ctx context.Context, l *ledger.Ledger, r ledger.Run,
	w RowsQuery) (page []Row, next int64, err error) {
	for _, which := range []string{FailedRows, OpenRows} {
		if (which == OpenRows && r.Ended()) || (which == FailedRows && Failed(r) == 0) {
			continue
		}
		w.Which = which
		rows, more, err := RowsPage(ctx, l, r, w)
		if err != nil {
			return nil, 0, err
		}
		page = append(page, rows...)
		if more > 0 && (next == 0 || more < next) {
			next = more
		}
	}
	slices.SortStableFunc(page, func(a, b Row) int { return cmp.Compare(a.Item, b.Item) })
	// A row that was settled between the two is in both.
	page = slices.CompactFunc(page, func(a, b Row) bool { return a.Item == b.Item })
	if next > 0 {
		page = slices.DeleteFunc(page, func(row Row) bool { return row.Item >= next })
	}
	if len(page) > w.Limit {
		return page[:w.Limit], page[w.Limit].Item, nil
	}
	return page, next, nil
}

// rowOf describes a row without its name.
func rowOf(r ledger.Run, stored ledger.RowState) (Row, error) {
	switch {
	case stored.Phase == ledger.PhaseSettled || stored.Result.Outcome != "":
		return settledRow(r, stored), nil
	case stored.Content == nil && stored.Err != nil:
		return Row{}, stored.Err
	}
	return openRow(r, stored.Item, evidence.ReadOpen(r.Kind, stored)), nil
}

// rowNames names settled rows. It caches the last chunk, since rows are named in their order.
type rowNames struct {
	ledger *ledger.Ledger
	run    ledger.Run

	first int64
	chunk [][]byte
}

// chunk is the number of rows that are read at once: the ledger compresses as many together.
const chunk = 128

// name sets the name of the row and the ids in it. content is nil if it was not read.
func (n *rowNames) name(ctx context.Context, row *Row, content []byte) error {
	if content != nil {
		row.name(n.run, content)
		return nil
	}
	if first := row.Item - row.Item%chunk; n.chunk == nil || n.first != first {
		rows, err := n.ledger.Contents(ctx, n.run, first, chunk)
		if err != nil {
			return err
		}
		n.first = first
		n.chunk = rows
	}
	at := row.Item - n.first
	if at >= int64(len(n.chunk)) {
		row.Name = "not stored"
		return nil
	}
	row.name(n.run, n.chunk[at])
	return nil
}

// name sets the name of a row and the ids in it. The row is stored as an object, or as the input of
// an invalid row, which is the list of its cells if it was CSV.
func (row *Row) name(r ledger.Run, content []byte) {
	var stored any
	text := results.PlainText(content)
	if json.Unmarshal(text, &stored) != nil { // a line that could not be read
		row.Name = Shown(string(text))
		return
	}
	values, _ := stored.(map[string]any)
	if cells, ok := stored.([]any); ok {
		if len(cells) == 1 && len(r.Columns) != 1 { // a line of CSV that could not be read
			row.Name = Shown(fmt.Sprint(cells[0]))
			return
		}
		values = map[string]any{}
		for i, column := range r.Columns[:min(len(r.Columns), len(cells))] {
			values[column] = cells[i]
		}
	}
	row.Organization, _ = values["organization_id"].(string)
	row.Domain, _ = values["discovery_domain_id"].(string)
	var names []string
	subject := "discovery_domain_id"
	if row.Domain == "" {
		subject = "domain"
	}
	for _, member := range []string{"organization_id", subject, "client_id", "name"} {
		if name, _ := values[member].(string); name != "" {
			names = append(names, Shown(name))
		}
	}
	row.Name = strings.Join(names, " ")
}
