package intake

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"orgops/dnscheck"
	"orgops/internal/engine"
	"orgops/internal/ledger"
	"orgops/tasks"
	"orgops/tasks/handlers"
)

// exported are the columns that results add to rows. Failed rows have those of failedColumns
// alone: they are for people who correct them.
var exported = []string{outcomeName, errorName, itemName, domainName, atName, templateName}

const failedColumns = 2

// outcomes are those by which rows can be selected.
var outcomes = []string{string(ledger.Done), string(engine.Unchanged), string(engine.Expired), string(engine.Refused),
	string(engine.Failed), string(engine.InvalidRow), string(engine.Lost), string(engine.Unproven),
	string(ledger.Cancelled), string(ledger.Missing), string(open)}

// open is the outcome of rows without a result.
const open ledger.Outcome = "open"

func outcomeOf(row ledger.RowState) ledger.Outcome {
	if row.Phase != ledger.PhaseSettled {
		return open
	}
	return row.Result.Outcome
}

// failed reports whether rows of an outcome have failed.
func failed(o ledger.Outcome) bool { return !engine.Succeeded(o) && o != open }

// CheckOutcomes refuses an outcome that no row can have.
func CheckOutcomes(selected []string) error {
	for _, outcome := range selected {
		if !slices.Contains(outcomes, outcome) {
			return fmt.Errorf("outcome %s: want of %s", quoted(outcome), strings.Join(outcomes, ", "))
		}
	}
	return nil
}

// Export is the form of an export.
type Export struct {
	JSON bool // JSON Lines, whatever was submitted
	Raw  bool // cells of CSV as they are, also those that a spreadsheet takes for formulas
}

// ExportFailed writes the failed rows of a run to out, in their order and in the form in which
// they were submitted, with their outcome and reason as orgops_outcome and orgops_error; those of
// domain:verify with the record to publish, the values found, and advice. The output can be
// submitted unchanged; CSV is safe to open in a spreadsheet, unless it is raw. It holds a chunk of
// rows at a time, and returns the number of rows. Rows that are settled meanwhile may or may not be
// among them.
func ExportFailed(ctx context.Context, l *ledger.Ledger, r ledger.Run, o Export,
	out io.Writer) (rows int64, err error) {
	format := r.Format
	if o.JSON {
		format = FormatJSONL
	}
	return export(ctx, l, r, format, o.Raw, failed, exported[:failedColumns], out)
}

// ExportResults writes every row of a run to out, or those with the given outcomes, open rows
// among them, as [ExportFailed] does, and adds to each: its number, the domain, the
// time of its proof or last check, and the template that it created. format is empty for that in
// which they were submitted. As CSV, rows that are whole objects have their ids or name alone.
func ExportResults(ctx context.Context, l *ledger.Ledger, r ledger.Run, format string, outcomes []string,
	out io.Writer) (rows int64, err error) {
	if err := CheckOutcomes(outcomes); err != nil {
		return 0, err
	}
	selected := func(o ledger.Outcome) bool { return len(outcomes) == 0 || slices.Contains(outcomes, string(o)) }
	return export(ctx, l, r, cmp.Or(format, r.Format), false, selected, exported, out)
}

func export(ctx context.Context, l *ledger.Ledger, r ledger.Run, format string, raw bool,
	selected func(ledger.Outcome) bool, columns []string, out io.Writer) (rows int64, err error) {
	stored, err := newStoredRows(l, r)
	if err != nil {
		return 0, err
	}
	var header []string
	if format == FormatCSV {
		stored.run.Columns = stored.columns()
		header = stored.run.Columns
	}
	names := slices.Clone(columns)
	letters := len(columns) == failedColumns && r.Kind == handlers.Verify
	if letters {
		names = append(names, adviceNames...)
	}
	w, err := newRowWriter(out, header, names...)
	if err != nil {
		return 0, err
	}
	w.raw = raw
	defer func() { err = errors.Join(err, w.flush()) }()
	for row, err := range stored.selected(ctx, selected) {
		if err != nil {
			return rows, err
		}
		row.Content = stored.withID(row)
		added := stored.result(row)[:len(columns):len(columns)]
		if letters {
			advice := adviceOf(row.Result)
			if name := stored.rowMembers(row.Content).Name; advice == nil && name != "" {
				advice = []string{name}
			}
			added = append(added, advice...)
		}
		if w.csv != nil { // a row that was not checked has no advice
			added = append(added, make([]string, len(names)-len(added))...)
		}
		if err := stored.write(w, row.Content, added...); err != nil {
			return rows, fmt.Errorf("run %s: write row %d: %w", r.ID, row.Item, err)
		}
		rows++
	}
	return rows, nil
}

// columns are those of CSV.
func (s *storedRows) columns() (names []string) {
	switch {
	case s.run.Format == FormatCSV:
		return s.run.Columns
	case s.kind.Name == tasks.TypeCreate:
		return []string{"name"}
	case s.kind.WholeObject:
		return []string{"organization_id", "discovery_domain_id"}
	}
	for _, column := range s.kind.Columns {
		names = append(names, column.Name)
	}
	return names
}

// selected returns the rows whose outcome is selected, in their order. Without those that are
// done, and open ones, the stored results suffice, of which there may be few.
func (s *storedRows) selected(ctx context.Context,
	selected func(ledger.Outcome) bool) iter.Seq2[ledger.RowState, error] {
	which := ledger.WithResult
	if selected(ledger.Done) || selected(open) {
		which = ledger.Every
	}
	return func(yield func(ledger.RowState, error) bool) {
		for row, err := range s.ledger.Each(ctx, s.run, which, 0) {
			if err == nil && !selected(outcomeOf(row)) {
				continue
			}
			if err == nil && which == ledger.WithResult {
				row.Content, err = s.source(ctx, row.Item)
			}
			if !yield(row, err) {
				return
			}
		}
	}
}

// result returns the values of the exported columns.
func (s *storedRows) result(row ledger.RowState) []string {
	outcome, reason, domain, at, template := outcomeOf(row), row.Result.Detail, "", "", ""
	evidence, record := row.Result.Evidence, (*handlers.VerifyRecord)(nil)
	switch {
	case outcome == open:
		waits := handlers.ReadOpen(s.run.Kind, row)
		reason, evidence, record = waits.Reason, waits.Evidence, waits.Record
	case s.kind.Name == tasks.TypeCreate && !failed(outcome):
		reason, template = "", row.Result.Detail
	}
	if s.kind.Proves {
		var found struct {
			Domain string `json:"domain"`
			Listed struct {
				Domain string `json:"domain"`
			} `json:"orgops_listed"`
		}
		_ = json.Unmarshal(row.Content, &found) // a bad row has neither
		domain = cmp.Or(found.Domain, found.Listed.Domain)
	}
	if record != nil {
		domain = record.Domain
	}
	if e, err := handlers.ReadEvidence(evidence); err == nil { // else there is none, or of a newer version
		at = e.At.Format(time.RFC3339)
		switch {
		case e.Compared != nil:
			domain = e.Compared.Domain
		case e.Record != nil:
			domain = e.Record.Domain
		}
	}
	return []string{string(outcome), reason, strconv.FormatInt(row.Item, 10), domain, at, template}
}

// withID returns the stored row, with the id that a worker has found if the row has the domain's
// name instead.
func (s *storedRows) withID(row ledger.RowState) []byte {
	if !bytes.HasPrefix(row.Content, []byte{'{'}) || !bytes.Contains(row.Content, []byte(`"domain"`)) ||
		bytes.Contains(row.Content, []byte(`"discovery_domain_id"`)) {
		return row.Content
	}
	id, evidence := "", row.Result.Evidence
	if row.Phase != ledger.PhaseSettled {
		open := handlers.ReadOpen(s.run.Kind, row)
		if evidence = open.Evidence; open.Record != nil {
			id = open.Record.ID
		}
	}
	if e, err := handlers.ReadEvidence(evidence); err == nil && e.Compared != nil {
		id = e.Compared.DiscoveryDomainID
	} else if err == nil && e.Record != nil {
		id = e.Record.ID
	}
	if id == "" {
		return row.Content
	}
	return fmt.Appendf(nil, `{"discovery_domain_id":%s,%s`, jsonString(id), row.Content[1:])
}

// adviceOf returns the values of adviceNames for a row that has expired, or nil.
func adviceOf(f ledger.Result) []string {
	e, err := handlers.ReadEvidence(f.Evidence)
	if err != nil || e.Record == nil {
		return nil
	}
	found, advice := "", f.Detail
	switch r := e.Finding; {
	case r != nil:
		found = r.Found
		if !strings.EqualFold(r.Host, e.Record.Host) {
			found = strings.TrimSpace(found + " at " + r.Host)
		}
	case e.State == dnscheck.Absent.String():
		advice += " Add a TXT record there with the expected value."
		if i := slices.IndexFunc(e.Said, func(o dnscheck.ObservationRecord) bool { return len(o.Values) > 0 }); i >= 0 {
			found = e.Said[i].Values[0]
		}
	}
	return []string{e.Record.Domain, e.Record.Host, e.Record.TXT, found, advice}
}

// write writes a row in the form of the writer. One that cannot be read has the added columns
// alone.
func (s *storedRows) write(w *rowWriter, source []byte, added ...string) (err error) {
	var cells []string
	var members []member
	switch {
	case source == nil:
	case w.csv != nil:
		cells, err = s.cells(source)
	default:
		members, err = s.members(source)
	}
	switch {
	case err != nil:
		return err
	case w.csv != nil:
		return w.cells(cells, added...)
	}
	return w.object(members, added...)
}
