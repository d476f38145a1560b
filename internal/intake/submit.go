package intake

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"orgops/internal/runs"
	"orgops/tasks"
)

// Input is rows to be handed in as one run.
type Input struct {
	// Name is the file's name, for errors.
	Name string
	// Open opens the rows from their beginning. It is called twice: once to
	// check every row, once to hand them in.
	Open     func() (io.ReadCloser, error)
	Kind     tasks.Kind
	Defaults tasks.Defaults
}

// Checked is what the first pass over an input found.
type Checked struct {
	Rows    int64
	Digest  string // hexadecimal SHA-256 of the decompressed octets, and of the defaults
	Format  string
	Columns []string
}

// BadRows is the error of an input of which rows are bad.
type BadRows struct {
	First []error // the first of them, each a *RowError
	Total int64
}

// mostBadRows is how many bad rows are told one by one.
const mostBadRows = 50

// Error tells the bad rows one a line.
func (e *BadRows) Error() string {
	var b strings.Builder
	for _, row := range e.First {
		fmt.Fprintln(&b, row)
	}
	if more := e.Total - int64(len(e.First)); more > 0 {
		fmt.Fprintf(&b, "and %d more\n", more)
	}
	word := "rows are"
	if e.Total == 1 {
		word = "row is"
	}
	fmt.Fprintf(&b, "%d %s bad; nothing was handed in", e.Total, word)
	return b.String()
}

// Errors of an input as a whole.
var (
	// ErrNoRows says that an input has a header at most.
	ErrNoRows = errors.New("there are no rows")
	// ErrTooManyRows says that an input has more rows than a run can.
	ErrTooManyRows = fmt.Errorf("there are more than the %d rows that a run can have: hand them in as several files", int64(runs.MaxRows))
	// ErrChanged says that the second pass did not read what the first one did.
	ErrChanged = errors.New("changed while it was being read: hand it in again when it is complete")
)

// Check reads the whole input and holds every row against its kind's rules.
// The error is a *HeaderError, a *BadRows, [ErrNoRows], [ErrTooManyRows], or one
// of reading.
func (in Input) Check() (Checked, error) {
	var bad BadRows
	checked, err := in.each(func(r Record, _ tasks.Row) error {
		if r.Err == nil {
			return nil
		}
		bad.Total++
		if len(bad.First) < mostBadRows {
			bad.First = append(bad.First, r.Err)
		}
		return nil
	})
	switch {
	case err != nil:
		return checked, err
	case bad.Total > 0:
		return checked, &bad
	case checked.Rows == 0:
		return checked, fmt.Errorf("%s: %w", in.Name, ErrNoRows)
	case checked.Rows > runs.MaxRows:
		return checked, fmt.Errorf("%s: %w", in.Name, ErrTooManyRows)
	}
	return checked, nil
}

// each hands every row to take, with what its kind makes of it; what the kind
// finds wrong becomes the record's error.
func (in Input) each(take func(Record, tasks.Row) error) (checked Checked, err error) {
	file, err := in.Open()
	if err != nil {
		return checked, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	rows, err := Open(in.Name, file, schemaOf(in.Kind))
	if err != nil {
		return checked, err
	}
	filled := defaultsOf(in.Defaults)
	checked.Format, checked.Columns = rows.Format(), filled.columns(rows.Format(), rows.Columns())
	for {
		record, err := rows.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return checked, err
		}
		checked.Rows++
		var row tasks.Row
		if record.Err == nil {
			if row, err = in.Kind.Parse(record.Object, in.Defaults); err != nil {
				record.Err = &RowError{File: in.Name, Line: record.Line, Item: record.Item, Msg: oneLine(err)}
			}
			if record.Source, err = filled.source(checked.Format, checked.Columns, record); err != nil {
				return checked, err
			}
		}
		if err := take(record, row); err != nil {
			return checked, err
		}
	}
	checked.Digest = filled.digest(rows.Digest())
	return checked, nil
}

// again is the second pass. It hands every row to work.
func (in Input) again(c Checked, work func(item int64, source []byte, row tasks.Row) error) error {
	second, err := in.each(func(r Record, row tasks.Row) error {
		if r.Err != nil {
			return fmt.Errorf("%s: %w", in.Name, ErrChanged)
		}
		return work(r.Item, r.Source, row)
	})
	if err == nil && second.Digest != c.Digest {
		err = fmt.Errorf("%s: %w", in.Name, ErrChanged)
	}
	return err
}

// schemaOf is the schema of a kind's rows.
func schemaOf(k tasks.Kind) Schema {
	s := Schema{Object: k.WholeObject}
	for _, c := range k.Columns {
		column := Column{Name: c.Name, Required: c.Required}
		if c.Bool {
			column.Type = Bool
		}
		s.Columns = append(s.Columns, column)
	}
	return s
}

// oneLine puts an error of several lines on one.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// Intake hands checked inputs in.
type Intake struct {
	Ledger   *runs.Ledger
	Producer *tasks.Producer
}

// Run says what the run of an input is.
type Run struct {
	ID, Tenant, Label string
	GiveUp            time.Duration // 0: tasks.DefaultGiveUp
}

// Begin makes the input's run, or finds it where the same was begun before;
// the same id with other content, kind or tenant is a *runs.MismatchError.
func (i Intake) Begin(ctx context.Context, in Input, c Checked, r Run) (run runs.Run, created bool, err error) {
	return i.Ledger.Create(ctx, runs.Run{
		ID: r.ID, Kind: in.Kind.Name, Tenant: r.Tenant, Label: r.Label, Digest: c.Digest, Format: c.Format, Columns: c.Columns,
	})
}

// HandIn stores and enqueues the rows of a run that was begun. What an earlier
// attempt has handed in or settled is left alone.
func (i Intake) HandIn(ctx context.Context, in Input, c Checked, run runs.Run, created bool, giveUp time.Duration) (tasks.Summary, error) {
	submission, err := i.Producer.Begin(tasks.Run{
		ID: run.ID, Kind: run.Kind, Tenant: run.Tenant, CreatedAt: run.CreatedAt, Generation: run.Generation,
		Existed: !created, Rows: c.Rows, GiveUp: giveUp,
	})
	if err != nil {
		return tasks.Summary{}, err
	}
	err = in.again(c, func(item int64, source []byte, row tasks.Row) error {
		return submission.Add(ctx, item, source, row)
	})
	if err != nil {
		return tasks.Summary{}, err
	}
	return submission.Finish(ctx)
}
