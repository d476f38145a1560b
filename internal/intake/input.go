package intake

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"orgops/internal/runs"
	"orgops/tasks"
)

// Input is rows to be submitted as one run. They are read once.
type Input struct {
	// Name is the file's name, for errors.
	Name     string
	Rows     io.Reader
	Kind     tasks.Kind
	Defaults tasks.Defaults
	// Ignore names columns, or members, that are left out of the rows.
	Ignore []string
	// SkipInvalid lets the good rows be submitted where others are bad. The bad
	// ones are part of the run, and settled as invalid.
	SkipInvalid bool
	// Rejected gets the bad rows as they came, with orgops_error, and with orgops_row for what
	// does not fit the header or is no JSON object. nil: they are not written.
	Rejected io.Writer
	// MaxRows is the largest number of rows that is accepted; 0: that of a run.
	MaxRows int64
}

// Found has the numbers of rows of an input, and its bad rows and duplicates.
type Found struct {
	Rows    int64
	Invalid BadRows // with SkipInvalid
	// Duplicates are rows that become no work, since a row before them does.
	Duplicates Duplicates
}

// BadRows is the error of an input of which rows are bad.
type BadRows struct {
	First []error // the first of them, each a *RowError
	Total int64
}

// mostBadRows is how many bad rows are listed one by one.
const mostBadRows = 50

// Error returns the first of the bad rows, and how many there are.
func (e *BadRows) Error() string {
	return fmt.Sprintf("%d bad %s; nothing was submitted; the first: %v", e.Total, plural(int(e.Total), "row"), e.First[0])
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
)

// taker takes the rows of an input as they are read.
type taker interface {
	// opened is called before the first row.
	opened(format string, columns []string)
	// work takes a row that becomes work, unless it turns out to be a duplicate.
	work(row tasks.Row) error
	// bad takes a bad row as it is stored.
	bad(content []byte, f fate) error
	// duplicate takes a row of those that were taken as work. Duplicates follow the last row,
	// in their order.
	duplicate(item int64, f fate) error
}

// read checks every row, and hands the rows to a taker until one is found that is bad, unless
// bad rows are skipped. The error is a *HeaderError, a *BadRows, [ErrNoRows],
// [ErrTooManyRows], one of reading, or one of the taker.
func (in Input) read(to taker) (found Found, err error) {
	rows, err := in.open()
	if err != nil {
		return found, err
	}
	r := reading{in: in, rows: rows, to: to, columns: columnsWith(in.Defaults, rows), duplicates: newDuplicateFinder(mostMarks)}
	defer func() { err = errors.Join(err, r.duplicates.seen.close()) }()
	to.opened(rows.Format(), r.columns)
	for {
		record, err := rows.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = r.take(record)
		}
		if err != nil {
			return r.found, errors.Join(err, r.rejected.flush())
		}
	}
	if err := r.rejected.flush(); err != nil {
		return r.found, err
	}
	err = r.end()
	return r.found, err
}

// open opens the rows after it has checked that none of their own columns are ignored.
func (in Input) open() (*Reader, error) {
	schema := schemaOf(in.Kind)
	for _, c := range in.Kind.Columns {
		if slices.Contains(in.Ignore, c.Name) {
			return nil, &HeaderError{File: in.Name, Line: 1, Msg: fmt.Sprintf("column %s belongs to these rows, and cannot be ignored", c.Name), Expected: schema.expected()}
		}
	}
	schema.Ignore = in.Ignore
	return Open(in.Name, in.Rows, schema)
}

// reading is the state of [Input.read].
type reading struct {
	in         Input
	rows       *Reader
	to         taker
	columns    []string
	duplicates *duplicateFinder
	rejected   *rejectedRows // nil until there is a bad row
	found      Found
}

// take takes one row.
func (r *reading) take(record Record) error {
	if r.found.Rows++; r.found.Rows > r.in.mostRows() {
		return fmt.Errorf("%s: %w: want at most %d", r.in.Name, ErrTooManyRows, r.in.mostRows())
	}
	if record.Err != nil {
		return r.takeBad(record)
	}
	row, err := record.parse(r.in.Kind, r.in.Defaults)
	if err != nil {
		record.Err = &RowError{File: r.in.Name, Line: record.Line, Msg: oneLine(err)}
		return r.takeBad(record)
	}
	if err := r.duplicates.add(record, row); err != nil || r.failed() {
		return err
	}
	return r.to.work(row)
}

func (in Input) mostRows() int64 {
	if in.MaxRows > 0 {
		return in.MaxRows
	}
	return runs.MaxRows
}

// failed reports whether the input is refused, so that its rows are only checked.
func (r *reading) failed() bool { return r.found.Invalid.Total > 0 && !r.in.SkipInvalid }

// takeBad takes a bad row.
func (r *reading) takeBad(record Record) error {
	r.found.Invalid.add(record.Err)
	if r.in.Rejected != nil {
		if err := r.reject(record); err != nil {
			return err
		}
	}
	if r.failed() {
		return nil
	}
	return r.to.bad(r.badContent(), fate{tasks.Invalid, fmt.Sprintf("line %d: %s", record.Line, reason(record.Err))})
}

// reject writes a bad row to those that are rejected.
func (r *reading) reject(record Record) (err error) {
	if r.rejected == nil {
		if r.rejected, err = newRejectedRows(r.in.Rejected, r.rows); err != nil {
			return fmt.Errorf("write rejected rows: %w", err)
		}
	}
	return r.rejected.write(r.rows, record.Err)
}

// end takes the duplicates, or returns why the input is refused.
func (r *reading) end() error {
	if r.failed() {
		return &r.found.Invalid
	}
	if r.found.Rows == 0 {
		return fmt.Errorf("%s: %w", r.in.Name, ErrNoRows)
	}
	return r.duplicates.each(func(one repeated) error {
		d := &r.found.Duplicates
		if d.Total++; len(d.First) < mostDuplicates {
			d.First = append(d.First, Duplicate{Line: one.line, SameAs: one.sameLine})
		}
		return r.to.duplicate(one.item, one.fate())
	})
}

// fate is the outcome of a row that becomes no work.
type fate struct {
	outcome tasks.Outcome
	detail  string
}

// schemaOf is the schema of a kind's rows.
func schemaOf(k tasks.Kind) Schema { return Schema{Object: k.WholeObject, Columns: k.Columns} }

// oneLine puts an error of several lines on one.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }
