package ledger

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"orgops/internal/untrusted"
)

// Ending is how an execution leaves a row: a [Result] settles it, a [Waiting] leaves it
// open until it is due, and a [GiveBack] leaves it as if it had not begun.
type Ending interface {
	validate() error
	// args returns the ending and its four arguments, as lua/segment_end.lua reads them.
	args() [5]any
}

// RowEnd ends an execution for one row.
type RowEnd struct {
	Row    Row
	Ending Ending
	// Subject is the object of the row, as the execution has read it; nil: not known.
	Subject *Subject
	// Now is Redis' time by the clock of the execution: a row waits from the earlier one of that and
	// Redis' time on. Zero: from Redis' time. It is the same for all rows of a call.
	Now time.Time
}

// Ends returns the same ending for each of the rows.
func Ends(e Ending, rows ...Row) []RowEnd {
	ends := make([]RowEnd, len(rows))
	for i, row := range rows {
		ends[i] = RowEnd{Row: row, Ending: e}
	}
	return ends
}

// Waiting leaves a row open until it is due.
type Waiting struct {
	Stage Stage
	// After is when the row is due, from now on: at most [MaxWait].
	After time.Duration
	// CountAttempt says that an attempt was used up, and Fresh that those before do not count any
	// more: the execution has done a part of the row's work.
	CountAttempt, Fresh bool
	// Memo replaces the row's memo, such as a record and evidence, for the next execution
	// and for people. It has at most 2 KiB.
	Memo []byte
}

// GiveBack leaves a row as if it had not begun, apart from [Checkpoint.FirstBegun]: no
// attempt is counted, and stage and memo stay. A worker that stops, or that does not
// know the row's kind, gives its rows back.
type GiveBack struct {
	// After is when the row is due, from now on: at most [MaxWait].
	After time.Duration
	// Note says to people why the row was given back, in at most 200 bytes. It stays
	// until the next execution ends.
	Note string
}

// maxNote bounds the note of a row, in bytes.
const maxNote = 200

// End ends an execution for each row in its own way. The rows of a script, at most
// 128, end together or not at all. A row is settled and counted once. The last row of a
// segment closes it, and the last segment of a committed run ends the run. If the run is
// cancelled, a row without an intent is settled as cancelled instead of being left open.
func (l *Ledger) End(ctx context.Context, seg Segment, n Nonce, ends ...RowEnd) (Receipt, error) {
	err := checkEnds(n, ends)
	var parts [][]any
	if err == nil {
		parts = endParts(ends)
	}
	return l.write(ctx, seg, rowWrite{"end", endScript, err, []any{string(n), l.mostSubjects}, parts})
}

func checkEnds(n Nonce, ends []RowEnd) error {
	if err := n.Validate(); err != nil {
		return err
	}
	for _, e := range ends {
		if err := e.validate(); err != nil {
			return err
		}
	}
	return nil
}

func (e RowEnd) validate() error {
	err := checkRows([]Row{e.Row})
	if err == nil && e.Ending == nil {
		err = errors.New("no ending")
	}
	if err == nil {
		err = e.Ending.validate()
	}
	if err == nil && e.Subject != nil {
		err = e.Subject.validate()
	}
	if err != nil {
		return fmt.Errorf("row %d: %w", e.Row, err)
	}
	return nil
}

// endParts returns the arguments for the rows, those of one script at a time.
func endParts(ends []RowEnd) (parts [][]any) {
	size := func(e RowEnd) int { return argSize(e.Ending.args()) }
	for part := range pages(ends, scriptRows, scriptBytes, size) {
		args := []any{toMillis(part[0].Now), 0}
		for _, e := range part {
			if e.Subject != nil {
				args = append(args, e.Subject.args()...)
			}
		}
		args[1] = len(args) / 3
		for _, e := range part {
			ending := e.Ending.args()
			args = append(append(args, int(e.Row)), ending[:]...)
		}
		parts = append(parts, args)
	}
	return parts
}

// argSize returns the size of the texts among arguments.
func argSize(args [5]any) (n int) {
	for _, a := range args {
		switch a := a.(type) {
		case string:
			n += len(a)
		case []byte:
			n += len(a)
		}
	}
	return n
}

func (r Result) args() [5]any { return [5]any{"s", string(r.Outcome), r.stored(), "", ""} }

func (w Waiting) args() [5]any {
	return [5]any{"w", w.Stage.letter(), w.After.Milliseconds(), flag(w.CountAttempt) + 2*flag(w.Fresh), w.Memo}
}

func (g GiveBack) args() [5]any {
	return [5]any{"g", g.After.Milliseconds(), strings.ToValidUTF8(g.Note, "\uFFFD"), "", ""}
}

func (w Waiting) validate() error {
	switch {
	case w.Stage.letter() == "":
		return fmt.Errorf("stage %s: want check or ready", untrusted.Value(w.Stage))
	case len(w.Memo) > MaxMemo:
		return fmt.Errorf("memo of %d bytes: want at most %d", len(w.Memo), MaxMemo)
	}
	return checkAfter(w.After)
}

func (g GiveBack) validate() error {
	if len(g.Note) > maxNote {
		return fmt.Errorf("note of %d bytes: want at most %d", len(g.Note), maxNote)
	}
	return checkAfter(g.After)
}

func checkAfter(after time.Duration) error {
	if after < 0 || after > MaxWait {
		return fmt.Errorf("wait %v: want 0 to %v", after, MaxWait)
	}
	return nil
}

// maxIntent bounds an intent, in bytes.
const maxIntent = 2 << 10

// Intend stores the intent of a request for each row, 1 to 2,048 bytes, and replaces
// the former. A row with an intent is never settled by a cancel, and is finished while its
// run is stopped: its request may be under way. The request may be made for the rows
// that are RowWritten. A row that has no intent yet gets none while its run is stopped
// or after it was cancelled. One that has an intent gets the new one all the same: it is
// needed to finish the first request, and the receipt reports whether a further request
// may begin. [Receipt.Now] is the time that is stored; if the rows
// do not fit one script, the last.
func (l *Ledger) Intend(ctx context.Context, seg Segment, n Nonce, intent []byte, rows ...Row) (Receipt, error) {
	err := n.Validate()
	if err == nil && (len(intent) == 0 || len(intent) > maxIntent) {
		err = fmt.Errorf("intent of %d bytes: want 1 to %d", len(intent), maxIntent)
	}
	if err == nil {
		err = checkRows(rows)
	}
	return l.write(ctx, seg, rowWrite{
		"intend", intendScript, err, []any{string(n), intent}, rowParts(rows, scriptBytes/maxIntent),
	})
}

// Withdraw removes the intents of rows: no request of theirs is under way.
func (l *Ledger) Withdraw(ctx context.Context, seg Segment, n Nonce, rows ...Row) (Receipt, error) {
	err := n.Validate()
	if err == nil {
		err = checkRows(rows)
	}
	return l.write(ctx, seg, rowWrite{
		"withdraw", intendScript, err, []any{string(n), ""}, rowParts(rows, scriptRows),
	})
}
