package intake

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"

	"orgops/internal/index"
	"orgops/internal/ledger"
	"orgops/internal/rowfile"
	"orgops/internal/untrusted"
	"orgops/tasks"
)

// Input is rows to be submitted as one run. They are read once.
type Input struct {
	// Name is the file's name, for errors.
	Name     string
	Rows     io.Reader
	Kind     string // such as [tasks.TypeVerify]
	Defaults tasks.Defaults
	// Ignore names columns, or members, that are left out of the rows.
	Ignore []string
	// SkipInvalid lets the good rows be submitted where others are bad. The bad
	// ones are part of the run, and settled as invalid.
	SkipInvalid bool
	// Rejected gets the bad rows as they came, with orgops_error, and with orgops_row for what
	// does not fit the header or is no JSON object. nil: they are not written.
	Rejected io.Writer
	// File says that the rows are those of a file, whose last line people often leave without
	// an end. From elsewhere, such as a pipe whose writer was killed, such a row is bad: an id
	// that was cut off may be another one.
	File bool
	// MaxRows is the largest number of rows that is accepted; 0: that of a run.
	MaxRows int64
	// Organizations are those of the submitter: rows of others are bad, and domains of others are
	// not known by their names.
	Organizations Organizations
	// Named returns the domains of each of some names, as [Intake.Named] does, for the rows that name
	// a domain without its organization. nil: such rows are bad, unless [Intake.Submit] submits them.
	Named func(names []string) ([][]index.Entry, error)
}

// Found has the numbers of rows of an input, and its bad rows and duplicates.
type Found struct {
	Rows    int64   `json:"rows"`             // that were read: the run has no more than the first duplicates of them
	Invalid BadRows `json:"invalid,omitzero"` // with SkipInvalid
	// Duplicates are rows that become no work, since a row before them does.
	Duplicates Duplicates `json:"duplicates,omitzero"`
	// CutLine is the line of the last row, if that has no end; 0: it has one.
	CutLine int `json:"-"`
	// Notes say in a line how the input was read, where it has another form than the documents
	// describe, such as "separated by ;, 3 empty rows left out".
	Notes string `json:"notes,omitempty"`
}

// BadRows is the error of an input of which rows are bad.
type BadRows struct {
	Total int64 `json:"rows"`
	// Unknown counts the rows whose domain is not in the index of names.
	Unknown int64   `json:"unknown_domains,omitempty"`
	First   []error `json:"first,omitempty"` // the first of them, each a *rowfile.RowError
}

// mostBadRows is how many bad rows are listed one by one.
const mostBadRows = 50

// Error returns the first of the bad rows, and how many there are.
func (e *BadRows) Error() string {
	rows := "rows"
	if e.Total == 1 {
		rows = "row"
	}
	return fmt.Sprintf("%d bad %s; nothing was submitted; the first: %v", e.Total, rows, e.First[0])
}

// add counts a bad row.
func (e *BadRows) add(err error) {
	e.Total++
	if len(e.First) < mostBadRows {
		e.First = append(e.First, err)
	}
}

// Errors of an input as a whole.
var (
	// ErrNoRows says that an input has a header at most.
	ErrNoRows = errors.New("there are no rows")
	// ErrTooManyRows says that an input has more rows than are accepted.
	ErrTooManyRows = errors.New("too many rows: submit them as several files")
	// ErrTooManyBad says that an input has more bad rows than can be skipped.
	ErrTooManyBad = errors.New("too many bad rows to skip: correct them, or leave them out")
)

// reading reads the rows of an input.
type reading struct {
	in         Input
	kind       tasks.Kind
	rows       *rowfile.Reader
	columns    []string // of the rows as they are stored
	duplicates duplicateFinder
	rejected   *rowfile.Rejected // nil: bad rows are not written
	skipped    int               // bytes of the bad rows that were passed to settled
	found      Found
	waiting    []readRow // that wait for ids
	bytes      int       // of their texts

	// work receives each row that becomes work, and settled each one that is stored and becomes none:
	// a bad one, or one of the first duplicates.
	work    func(row tasks.Row) error
	settled func(content []byte, r ledger.Result) error
}

// open opens the rows after it has checked that none of their own columns are ignored.
func (in Input) open() (*reading, error) {
	kind, ok := tasks.KindOf(in.Kind)
	if !ok {
		return nil, fmt.Errorf("%s: unknown kind of rows %s", in.Name, untrusted.Value(in.Kind))
	}
	schema := rowfile.SchemaOf(kind)
	for _, c := range kind.Columns {
		if slices.Contains(in.Ignore, c.Name) {
			return nil,
				&rowfile.HeaderError{File: in.Name, Line: 1, Msg: fmt.Sprintf("column %s belongs to these rows, and cannot be ignored",
					c.Name), Expected: schema.Expected()}
		}
	}
	schema.Ignore = in.Ignore
	rows, err := rowfile.Open(in.Name, in.Rows, schema)
	if err != nil {
		return nil, err
	}
	r := &reading{in: in, kind: kind, rows: rows, columns: columnsWith(kind, in.Defaults, rows),
		duplicates: newDuplicateFinder()}
	if in.Rejected != nil {
		r.rejected = rows.Rejected(in.Rejected)
	}
	return r, nil
}

// check checks every row. It passes the rows to work and settled, in their order, until one is
// bad, or all of them if bad rows are skipped. The error is a *BadRows, [ErrNoRows],
// [ErrTooManyRows], [ErrTooManyBad], one of reading, or one of the two functions.
func (r *reading) check() error {
	err := r.all()
	r.found.Notes = r.rows.Notes()
	if r.rejected != nil {
		if flushed := r.rejected.Flush(); flushed != nil {
			err = errors.Join(err, fmt.Errorf("write rejected rows: %w", flushed))
		}
	}
	switch {
	case err != nil:
		return err
	case r.failed():
		return &r.found.Invalid
	case r.found.Rows == 0:
		return fmt.Errorf("%s: %w", r.in.Name, ErrNoRows)
	}
	return nil
}

// all reads all rows.
func (r *reading) all() error {
	for {
		record, err := r.rows.Next()
		if err != nil {
			if failed := r.addWaiting(); failed != nil || errors.Is(err, io.EOF) {
				return failed
			}
			return err
		}
		if err := r.addOrWait(r.parse(record)); err != nil {
			return err
		}
	}
}

// bad sets the error of a row.
func (r *reading) bad(one *readRow, msg string, a ...any) {
	one.Err = r.rows.Bad(one.Record, fmt.Sprintf(msg, a...))
}

// parse checks the row that was read last by the rules of its kind.
func (r *reading) parse(record rowfile.Record) readRow {
	one := readRow{Record: record}
	one.text, one.cells = r.rows.Last()
	if record.Cut && !r.in.File && record.Err == nil {
		r.bad(&one, "the last line has no end, so the input may have been cut off: if it is complete, add a line end")
	}
	if one.Err != nil {
		return one
	}
	var err error
	if one.row, err = record.Parse(r.kind, r.in.Defaults); err != nil {
		r.bad(&one, "%s", oneLine(err))
	}
	return one
}

// add passes a row on.
func (r *reading) add(one readRow) error {
	most := cmp.Or(r.in.MaxRows, ledger.MaxRows)
	if r.found.Rows++; r.found.Rows > most {
		return fmt.Errorf("%s: %w: want at most %d", r.in.Name, ErrTooManyRows, most)
	}
	if one.Cut && r.in.File {
		r.found.CutLine = one.Line
	}
	if one.Err == nil {
		if err := r.in.Organizations.check(one.row); err != nil {
			r.bad(&one, "%s", oneLine(err))
		}
	}
	if one.Err != nil {
		return r.addBad(one)
	}
	first, same := r.duplicates.first(one.Record, one.row)
	switch {
	case !same: // both would run at the same time, and either could be the last
		r.bad(&one, "it contradicts row %d (line %d), which has the same %s and other values: remove one of the two",
			first.item, first.line, subjectOf(r.kind, one.row))
		return r.addBad(one)
	case r.failed():
		return nil
	case int64(first.item) != one.Item && !r.kind.WholeObject: // two equal templates are two requests
		return r.addDuplicate(one.Record, one.row, first)
	}
	return r.work(one.row)
}

// subjectOf names the members that say what a row of the kind is about.
func subjectOf(k tasks.Kind, row tasks.Row) string {
	switch {
	case k.WholeObject:
		return "name"
	case row.Domain() != "":
		return "domain"
	}
	return k.Columns[0].Name + " and " + k.Columns[1].Name
}

// failed reports whether the input is refused, so that its rows are only checked.
func (r *reading) failed() bool { return r.found.Invalid.Total > 0 && !r.in.SkipInvalid }

func (r *reading) addBad(one readRow) error {
	r.found.Invalid.add(one.Err)
	if r.rejected != nil {
		if err := r.rejected.Write(one.text, one.cells, reason(one.Err)); err != nil {
			return fmt.Errorf("write rejected rows: %w", err)
		}
	}
	if r.failed() {
		return nil
	}
	content := r.badContent(one)
	result := resultOf(ledger.InvalidRow, "line %d: %s", one.Line, reason(one.Err))
	if r.skipped += len(content) + len(result.Detail); r.skipped > maxSkipped {
		return fmt.Errorf("%s: %w; the first of %d: %w", r.in.Name, ErrTooManyBad, r.found.Invalid.Total,
			r.found.Invalid.First[0])
	}
	return r.settled(content, result)
}

func (r *reading) addDuplicate(record rowfile.Record, row tasks.Row, first place) error {
	r.found.Duplicates.add(Duplicate{
		Line:      record.Line,
		Row:       record.Item,
		SameAs:    int(first.line),
		SameAsRow: int64(first.item),
	})
	if r.found.Duplicates.Total > StoredDuplicates {
		return nil
	}
	content, err := row.Content()
	if err != nil {
		return err
	}
	return r.settled(content, resultOf(ledger.Unchanged, "the same as row %d (line %d)", first.item, first.line))
}

// resultOf returns the result of a row that becomes no work.
func resultOf(outcome ledger.Outcome, detail string, a ...any) ledger.Result {
	return ledger.Result{Outcome: outcome, Detail: fmt.Sprintf(detail, a...)}
}
