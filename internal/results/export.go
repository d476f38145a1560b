package results

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

	"orgops/dnscheck/dnsname"
	"orgops/dnscheck/report"
	"orgops/internal/evidence"
	"orgops/internal/ledger"
	"orgops/internal/rowfile"
	"orgops/internal/stamp"
	"orgops/internal/untrusted"
	"orgops/tasks"
)

// The columns and members that are added to rows.
const (
	outcomeName = rowfile.Prefix + "outcome"
	// itemName has the number of the row, from 0, settledAtName when its work was done, atName the
	// time of its proof or last check, and templateName the id of its template.
	itemName      = rowfile.Prefix + "item"
	settledAtName = rowfile.Prefix + "settled_at"
	atName        = rowfile.Prefix + "at"
	templateName  = rowfile.Prefix + "template"
	// The run: its id, kind and tenant, who has submitted it, and when its rows could start.
	runName         = rowfile.Prefix + "run"
	kindName        = rowfile.Prefix + "kind"
	tenantName      = rowfile.Prefix + "tenant"
	submittedByName = rowfile.Prefix + "submitted_by"
	startedAtName   = rowfile.Prefix + "started_at"
	// What an update has replaced.
	statusBeforeName = rowfile.Prefix + "status_before"
	flagBeforeName   = rowfile.Prefix + "use_for_organization_discovery_before"
	// revokedByName has the run that has revoked a domain since a sweep found it lost.
	revokedByName = rowfile.Prefix + "revoked_by"
)

// outcomes are those by which rows can be selected.
var outcomes = []string{string(ledger.Done), string(ledger.Unchanged), string(ledger.Expired), string(ledger.Refused),
	string(ledger.Failed), string(ledger.InvalidRow), string(ledger.AtRisk), string(ledger.Lost),
	string(ledger.Unproven), string(ledger.Withdrawn), string(ledger.Cancelled), string(open)}

// open is the outcome of rows without a result.
const open ledger.Outcome = "open"

func outcomeOf(row ledger.RowState) ledger.Outcome {
	if row.Phase != ledger.PhaseSettled {
		return open
	}
	return row.Result.Outcome
}

// failed reports whether rows of an outcome have failed.
func failed(o ledger.Outcome) bool { return !ledger.Succeeded(o) && o != open }

// CheckOutcomes refuses an outcome that no row can have.
func CheckOutcomes(selected []string) error {
	for _, outcome := range selected {
		if !slices.Contains(outcomes, outcome) {
			return fmt.Errorf("outcome %s: want of %s", untrusted.Value(outcome), strings.Join(outcomes, ", "))
		}
	}
	return nil
}

// RevokedBy returns the runs that have revoked domains of a tenant, by the ids of the domains. It
// gets at most a thousand ids at once.
type RevokedBy func(ctx context.Context, domains []string) (map[string]ledger.RunID, error)

// FailedOptions are the form of an export of failed rows.
type FailedOptions struct {
	JSON    bool      // JSON Lines, whatever was submitted
	Raw     bool      // cells of CSV as they are, also those that a spreadsheet takes for formulas
	Revoked RevokedBy // which lost domains of a sweep are revoked by now; nil: it is not said
}

// ExportFailed writes the failed rows of a run to out, in their order and in the form in which
// they were submitted, with their outcome and reason as orgops_outcome and orgops_error; those of
// domain:verify, domain:read and domain:recheck with the record to publish, the values found,
// advice, and the name of the mistake, as far as they are known. The output can be submitted
// unchanged; CSV is safe to open in a spreadsheet, unless it is raw. It holds a chunk of rows at a
// time, and returns the number of rows. Rows that are settled meanwhile may or may not be among
// them.
func ExportFailed(ctx context.Context, l *ledger.Ledger, r ledger.Run, o FailedOptions,
	out io.Writer) (rows int64, err error) {
	format := r.Format
	if o.JSON {
		format = rowfile.FormatJSONL
	}
	return write(ctx, l, r, form{format: format, raw: o.Raw, revoked: o.Revoked}, failed, out)
}

// Options select rows of a run, and are the form of their export.
type Options struct {
	Format   string   // empty: that in which the rows were submitted
	Outcomes []string // of the rows, open ones among them; empty: all rows
	// Run adds the run to each row, so that the file stands by itself: its id, kind and tenant, its
	// Submitter, and when its rows could start.
	Run       bool
	Submitter string
	Revoked   RevokedBy // as in FailedOptions
}

// Export writes every row of a run to out, or those with the given outcomes, as
// [ExportFailed] does, and adds to each: its number, when it was settled, the time of its proof or
// last check, the template that it created, and the values that an update has replaced. As CSV,
// rows that are whole objects have their ids or name alone. An outcome that no row can have is an
// error.
func Export(ctx context.Context, l *ledger.Ledger, r ledger.Run, o Options,
	out io.Writer) (rows int64, err error) {
	if err := CheckOutcomes(o.Outcomes); err != nil {
		return 0, err
	}
	selected := func(outcome ledger.Outcome) bool {
		return len(o.Outcomes) == 0 || slices.Contains(o.Outcomes, string(outcome))
	}
	f := form{
		format:  cmp.Or(o.Format, r.Format),
		more:    []string{itemName, settledAtName, atName, templateName},
		revoked: o.Revoked,
	}
	if o.Run {
		f.more = append(f.more, runName, kindName, tenantName, submittedByName, startedAtName)
		f.ofRun = map[string]string{
			runName:         string(r.ID),
			kindName:        string(r.Kind),
			tenantName:      string(r.Tenant),
			submittedByName: o.Submitter,
			startedAtName:   stamp.UTC(startOf(r)),
		}
	}
	return write(ctx, l, r, f, selected, out)
}

// startOf returns when rows of the run could start.
func startOf(r ledger.Run) time.Time {
	start := r.CreatedAt
	if r.HasAllRows() {
		start = r.CommittedAt
	}
	if r.NotBefore.After(start) {
		start = r.NotBefore
	}
	return start
}

// form is the form of an export.
type form struct {
	format string
	raw    bool     // cells of CSV are written as they are
	more   []string // columns, apart from those that all exports have
	// ofRun has the values of those that are the same in all rows.
	ofRun   map[string]string
	revoked RevokedBy
}

// write writes the selected rows.
func write(ctx context.Context, l *ledger.Ledger, r ledger.Run, f form,
	selected func(ledger.Outcome) bool, out io.Writer) (rows int64, err error) {
	stored, err := NewStoredRows(l, r)
	if err != nil {
		return 0, err
	}

	// The columns of the rows, and the added ones.
	var header []string
	if f.format == rowfile.FormatCSV {
		stored.run.Columns = stored.columns()
		header = stored.run.Columns
	}
	names := slices.Concat([]string{outcomeName, rowfile.ErrorName}, f.more)
	if r.Kind == tasks.TypeRecheck {
		names = append(names, revokedByName)
	}
	switch {
	case stored.kind.Proves, r.Kind == tasks.TypeRead:
		names = append(names, rowfile.AdviceNames()...)
	case r.Kind == tasks.TypeUpdate && len(f.more) > 0:
		names = append(names, statusBeforeName, flagBeforeName)
	}
	w, err := rowfile.NewWriter(out, header, names...)
	if err != nil {
		return 0, err
	}
	w.Raw = f.raw
	w.Number = itemName
	defer func() { err = errors.Join(err, w.Flush()) }()

	// The rows, one at a time.
	for row, err := range stored.withRevoked(ctx, stored.selected(ctx, selected), f.revoked) {
		if err != nil {
			return rows, err
		}
		content, known := stored.result(row.RowState)
		known[revokedByName] = string(row.revokedBy)
		added := make([]string, len(names))
		for i, name := range names {
			added[i] = cmp.Or(f.ofRun[name], known[name])
		}
		if err := stored.write(w, content, added...); err != nil {
			return rows, fmt.Errorf("run %s: write row %d: %w", r.ID, row.Item, err)
		}
		rows++
	}
	return rows, nil
}

// columns are those of CSV.
func (s *StoredRows) columns() (names []string) {
	switch {
	case s.run.Format == rowfile.FormatCSV:
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

// selected returns the rows whose outcome is selected, in their order. If neither done nor open
// rows are, only rows with a stored result are read, of which there may be few.
func (s *StoredRows) selected(ctx context.Context,
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
				row.Content, err = s.Source(ctx, row.Item)
			}
			if !yield(row, err) {
				return
			}
		}
	}
}

// sweptRow is a row, with the run that has revoked its domain since a sweep found it lost; "": none
// has.
type sweptRow struct {
	ledger.RowState

	revokedBy ledger.RunID
}

// withRevoked returns the rows, those of a sweep with the runs that have revoked their domains
// since. Only the states of lost domains are read, once for each chunk of rows.
func (s *StoredRows) withRevoked(ctx context.Context, rows iter.Seq2[ledger.RowState, error],
	revoked RevokedBy) iter.Seq2[sweptRow, error] {
	most := chunkRows
	if s.run.Kind != tasks.TypeRecheck || s.run.Counts[ledger.Lost] == 0 {
		most = 1 // nothing is to be read
	}
	return func(yield func(sweptRow, error) bool) {
		var chunk []ledger.RowState
		for row, err := range rows {
			if err != nil {
				if s.yieldChunk(ctx, chunk, revoked, yield) {
					yield(sweptRow{}, err)
				}
				return
			}
			if chunk = append(chunk, row); len(chunk) < most {
				continue
			}
			if !s.yieldChunk(ctx, chunk, revoked, yield) {
				return
			}
			chunk = nil
		}
		s.yieldChunk(ctx, chunk, revoked, yield)
	}
}

// yieldChunk yields the rows of a chunk. It returns false at the end of the iteration.
func (s *StoredRows) yieldChunk(ctx context.Context, chunk []ledger.RowState, revoked RevokedBy,
	yield func(sweptRow, error) bool) bool {
	var lost []string
	for _, row := range chunk {
		if outcomeOf(row) == ledger.Lost {
			lost = append(lost, s.rowMembers(row.Content).Domain)
		}
	}
	var by map[string]ledger.RunID
	if len(lost) > 0 && revoked != nil {
		var err error
		if by, err = revoked(ctx, lost); err != nil {
			yield(sweptRow{}, err)
			return false
		}
	}
	for _, row := range chunk {
		swept := sweptRow{RowState: row}
		if outcomeOf(row) == ledger.Lost {
			swept.revokedBy = by[s.rowMembers(row.Content).Domain]
		}
		if !yield(swept, nil) {
			return false
		}
	}
	return true
}

// result returns the stored row, with the id that a worker has found if the row has the domain's
// name instead, and the values of the added columns by their names.
func (s *StoredRows) result(row ledger.RowState) (content []byte, known map[string]string) {
	known = map[string]string{outcomeName: string(outcomeOf(row)), itemName: strconv.FormatInt(row.Item, 10)}
	if !row.SettledAt.IsZero() {
		known[settledAtName] = stamp.UTC(row.SettledAt)
	}
	var record evidence.Record
	if s.kind.Proves {
		record = s.contentRecord(row.Content)
	}

	// The reason, and the evidence of the last check or proof: of an open row they are in its state.
	reason := row.Result.Detail
	advice := row.Result.Detail
	var last *evidence.Evidence // nil: there is none, or it is of a newer version
	switch outcome := outcomeOf(row); {
	case outcome == open:
		waits := evidence.ReadOpen(s.run.Kind, row)
		reason = waits.Reason
		advice = waits.Advice
		last = waits.Evidence
		record = *cmp.Or(waits.Record, &record)
	case s.kind.Name == tasks.TypeCreate && !failed(outcome):
		reason = ""
		known[templateName] = row.Result.Detail
	}
	if e, err := evidence.Read(row.Result.Evidence); err == nil {
		last = &e
	}

	// The record that was proven or not found, and the remedy.
	if last != nil {
		known[atName] = stamp.UTC(last.At)
		known[statusBeforeName], known[flagBeforeName] = before(*last)
		if c := last.Compared; c != nil {
			record = *c
		} else {
			record = *cmp.Or(last.Record, &record)
			known[rowfile.FoundName], known[rowfile.AdviceName] = foundAndAdvice(*last, cmp.Or(last.Advice(), advice))
			known[rowfile.MistakeName] = string(last.Mistake())
		}
	}
	known[rowfile.ErrorName] = reason
	known[rowfile.DomainName] = record.Domain
	known[rowfile.HostName] = record.Host
	known[rowfile.ValueName] = record.TXT
	return withID(row.Content, record.DiscoveryDomainID), known
}

// before returns the values that an update has replaced; "": it is none, or the record had none.
func before(e evidence.Evidence) (status, flag string) {
	if e.Before == nil {
		return "", ""
	}
	if set := e.Before.UseForOrganizationDiscovery; set != nil {
		flag = strconv.FormatBool(*set)
	}
	return string(e.Before.Status), flag
}

// contentRecord returns the record that the row has itself: that of a scan or a listing, or its
// name alone.
func (s *StoredRows) contentRecord(content []byte) evidence.Record {
	if s.kind.Name == tasks.TypeRecheck {
		var row tasks.RecheckRow
		_ = json.Unmarshal(content, &row) // of a row that cannot be read nothing is known
		return *evidence.RecordOf(row.Record())
	}
	var row tasks.VerifyRow
	if err := json.Unmarshal(content, &row); err != nil { // of a bad row
		row = tasks.VerifyRow{Domain: s.rowMembers(content).Name}
	}
	if listed := row.ListedDomain(); listed != nil {
		return *evidence.RecordOf(*listed)
	}
	return evidence.Record{Domain: row.Domain}
}

// withID returns a stored row with the domain's id, unless it is empty or the row has it.
func withID(content []byte, id string) []byte {
	if id == "" || !bytes.HasPrefix(content, []byte{'{'}) || bytes.Contains(content, []byte(`"discovery_domain_id"`)) {
		return content
	}
	text, _ := json.Marshal(id) // a string always has a JSON form
	return fmt.Appendf(nil, `{"discovery_domain_id":%s,%s`, text, content[1:])
}

// foundAndAdvice returns the values that the last check found, as printable ASCII, and the remedy.
// reason is that of the row.
func foundAndAdvice(e evidence.Evidence, reason string) (found, advice string) {
	if e.State != report.Absent {
		return "", reason
	}
	if len(e.Findings) > 0 {
		f := e.Findings[0]
		if found = f.Found; e.Record == nil || !dnsname.Same(f.Host, e.Record.Host) {
			found = strings.TrimSpace(found + " at " + f.Host)
		}
		return found, reason
	}
	if i := slices.IndexFunc(e.Said, func(o report.Observation) bool { return len(o.Values) > 0 }); i >= 0 {
		found = strings.Replace(e.Said[i].Values[0], "…", "...", 1)
	}
	return found, reason + " Add a TXT record there with the expected value."
}

// write writes a row in the form of the writer. One that cannot be read has the added columns
// alone.
func (s *StoredRows) write(w *rowfile.Writer, source []byte, added ...string) (err error) {
	var cells []string
	var members rowfile.Object
	switch {
	case source == nil:
	case w.CSV():
		cells, err = s.cells(source)
	default:
		members, err = s.members(source)
	}
	switch {
	case err != nil:
		return err
	case w.CSV():
		return w.Cells(cells, added...)
	}
	return w.Object(members, added...)
}
