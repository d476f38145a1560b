package intake

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/internal/runs"
	"orgops/tasks"
)

// Input is rows to be submitted as one run.
type Input struct {
	// Name is the file's name, for errors.
	Name string
	// Open opens the rows from their beginning. It is called twice: once to
	// check every row, once to hand them in.
	Open     func() (io.ReadCloser, error)
	Kind     tasks.Kind
	Defaults tasks.Defaults
	// Ignore names columns, or members, that are left out of the rows.
	Ignore []string
	// SkipInvalid lets the good rows be submitted where others are bad. The bad
	// ones are part of the run, and settled as invalid.
	SkipInvalid bool
	// Rejected gets the bad rows as they came while the rows are checked, with
	// orgops_error, and with orgops_row for what does not fit the header or is no
	// JSON object. nil: nobody wants them.
	Rejected io.Writer
}

// Checked is what the first pass over an input found.
type Checked struct {
	Rows    int64
	Digest  string // hexadecimal SHA-256 of the decompressed bytes, and of the defaults
	Format  string
	Columns []string
	Invalid BadRows // that SkipInvalid has let pass
	// Duplicates are rows that become no work, since a row before them does.
	Duplicates Duplicates
}

// Close lets go of the temporary file that many duplicates may take.
func (c Checked) Close() error { return c.Duplicates.close() }

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
	fmt.Fprintf(&b, "%d %s bad; nothing was submitted", e.Total, word)
	return b.String()
}

// Errors of an input as a whole.
var (
	// ErrNoRows says that an input has a header at most.
	ErrNoRows = errors.New("there are no rows")
	// ErrTooManyRows says that an input has more rows than a run can.
	ErrTooManyRows = fmt.Errorf("more than %d rows, the most that a run can have: submit them as several files", int64(runs.MaxRows))
	// ErrChanged says that the second pass did not read what the first one did.
	ErrChanged = errors.New("changed while it was being read: submit it again when it is complete")
)

// Check reads the whole input and holds every row against its kind's rules.
// The error is a *HeaderError, a *BadRows, [ErrNoRows], [ErrTooManyRows], or one
// of reading. What was found is to be closed.
func (in Input) Check() (checked Checked, err error) {
	if err := in.checkIgnored(); err != nil {
		return Checked{}, err
	}
	var bad BadRows
	var rejected *rejectedRows
	seen := newDuplicateFinder(mostMarks)
	checked, err = in.each(func(rows *Reader, r Record, row tasks.Row) error {
		if r.Err == nil {
			return seen.add(r, row)
		}
		bad.Total++
		if len(bad.First) < mostBadRows {
			bad.First = append(bad.First, r.Err)
		}
		if in.Rejected == nil {
			return nil
		}
		if rejected == nil {
			rejected = newRejectedRows(in.Rejected, rows)
		}
		return rejected.write(rows, r.Err)
	})
	defer func() { err = errors.Join(err, seen.close()) }()
	if err := errors.Join(err, rejected.flush()); err != nil {
		return checked, err
	}
	switch {
	case bad.Total > 0 && !in.SkipInvalid:
		return checked, &bad
	case checked.Rows == 0:
		return checked, fmt.Errorf("%s: %w", in.Name, ErrNoRows)
	case checked.Rows > runs.MaxRows:
		return checked, fmt.Errorf("%s: %w", in.Name, ErrTooManyRows)
	}
	checked.Invalid = bad
	checked.Duplicates, err = seen.found()
	return checked, err
}

// checkIgnored refuses to leave out what the rows are made of.
func (in Input) checkIgnored() error {
	for _, c := range in.Kind.Columns {
		if slices.Contains(in.Ignore, c.Name) {
			return &HeaderError{File: in.Name, Line: 1, Msg: fmt.Sprintf("column %s belongs to these rows, and cannot be ignored", c.Name), Expected: schemaOf(in.Kind).expected()}
		}
	}
	return nil
}

// each hands every row to take, with what its kind makes of it; what the kind
// finds wrong becomes the record's error.
func (in Input) each(take func(*Reader, Record, tasks.Row) error) (checked Checked, err error) {
	file, err := in.Open()
	if err != nil {
		return checked, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	schema := schemaOf(in.Kind)
	schema.Ignore = in.Ignore
	rows, err := Open(in.Name, file, schema)
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
		}
		if record.Err != nil {
			record.Source, err = in.storedBad(checked, rows, record)
		} else {
			record.Source, err = filled.source(checked.Format, checked.Columns, record)
		}
		if err != nil {
			return checked, err
		}
		if err := take(rows, record, row); err != nil {
			return checked, err
		}
	}
	checked.Digest = filled.digest(in.digest(rows.Digest()))
	return checked, nil
}

// digest is that of the file, and of what is left out of it where that may
// change what the rows ask for: of a whole object any member may.
func (in Input) digest(file string) string {
	if !in.Kind.WholeObject || len(in.Ignore) == 0 {
		return file
	}
	h := sha256.New()
	fmt.Fprintln(h, file)
	for _, name := range slices.Sorted(slices.Values(in.Ignore)) {
		fmt.Fprintf(h, "without %q\n", name)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// fate is the outcome of a row that becomes no work.
type fate struct {
	outcome tasks.Outcome
	detail  string
}

// again is the second pass. It hands every row to work, or, if it becomes no
// work, to known.
func (in Input) again(c Checked, work func(item int64, source []byte, row tasks.Row) error, known func(item int64, source []byte, row tasks.Row, f fate) error) error {
	next, stop := iter.Pull2(c.Duplicates.inOrder())
	defer stop()
	same, err, more := next()
	second, failed := in.each(func(_ *Reader, r Record, row tasks.Row) error {
		switch {
		case err != nil:
			return err
		case r.Err == nil && more && same.item == r.Item:
			f := same.fate()
			same, err, more = next()
			return known(r.Item, r.Source, row, f)
		case r.Err == nil:
			return work(r.Item, r.Source, row)
		case !in.SkipInvalid:
			return fmt.Errorf("%s: %w", in.Name, ErrChanged)
		}
		return known(r.Item, r.Source, row, fate{tasks.Invalid, invalidDetail(r.Err)})
	})
	if failed == nil && err != nil {
		failed = err
	}
	if failed == nil && second.Digest != c.Digest {
		failed = fmt.Errorf("%s: %w", in.Name, ErrChanged)
	}
	return failed
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

// Intake submits checked inputs.
type Intake struct {
	Ledger *runs.Ledger
	// Redis is that of the ledger. nil: a commit is not read back.
	Redis redis.UniversalClient
	// Committed is called when the rows of a run are committed, before they are
	// read back, which takes seconds. nil: nothing is.
	Committed func()
	// Traceparent returns the W3C traceparent of a context, or "". nil: there is none.
	Traceparent func(context.Context) string
	// Now is the clock; nil: time.Now.
	Now func() time.Time
}

// New returns an Intake that submits rows to the ledger in rdb.
func New(rdb redis.UniversalClient, ledger *runs.Ledger) Intake {
	return Intake{Ledger: ledger, Redis: rdb}
}

// Resume resumes a paused run; resumed is false if the run was not paused. The error is
// [runs.ErrNotFound], or [runs.ErrEnded].
func (i Intake) Resume(ctx context.Context, id string) (run runs.Run, resumed bool, err error) {
	if run, err = i.Ledger.Get(ctx, id); err != nil {
		return run, false, err
	}
	return run, run.Paused, i.Ledger.Resume(ctx, id)
}

// Run says what the run of an input is.
type Run struct {
	ID, Tenant, Label string
	Caller            string        // who hands it in over HTTP, else empty
	GiveUp            time.Duration // 0: tasks.DefaultGiveUp
	Priority          tasks.Priority
	NotBefore         time.Time // when its rows may start; zero: at once
}

// Begin makes the input's run, or finds it where the same was begun before;
// the same id with other content, kind or tenant is a *runs.MismatchError.
func (i Intake) Begin(ctx context.Context, in Input, c Checked, r Run) (run runs.Run, created bool, err error) {
	return i.create(ctx, runs.Run{
		ID: r.ID, Kind: in.Kind.Name, Tenant: r.Tenant, Label: r.Label, Digest: c.Digest, Format: c.Format, Columns: c.Columns,
		Caller: r.Caller, GiveUp: r.GiveUp, Priority: string(r.Priority), NotBefore: r.NotBefore,
	}, nil)
}

// HandIn submits the rows of a run that was begun, or the rest of them if an earlier
// producer was interrupted. The error is [runs.ErrCancelled] if the run was cancelled.
func (i Intake) HandIn(ctx context.Context, in Input, c Checked, run runs.Run) (tasks.Summary, error) {
	return i.stage(ctx, run, func(to *staging) error { return in.stage(ctx, c, to) })
}

// stage is the second reading.
func (in Input) stage(ctx context.Context, c Checked, to *staging) error {
	return in.again(c, func(_ int64, _ []byte, row tasks.Row) error {
		return to.add(ctx, row)
	}, func(_ int64, source []byte, row tasks.Row, f fate) error {
		return to.addSettled(ctx, source, row, f)
	})
}
