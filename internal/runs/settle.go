package runs

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Settle says what became of rows of a run, in one step and for all of them or
// none. A row is counted once: who settles it again changes nothing, save that
// "done" and "unchanged" replace "cancelled". A detail is kept for each row
// that has one, and the outcome for each that is not "done"; the row's note and
// marks are dropped. A detail is cut to 500 characters, those that do not print
// are escaped.
//
// Outcomes are words of [a-z_]. The error is [ErrNotFound] when there is no such
// run, a [MismatchError] when it is of another kind or has no such row. generation
// is that of the task, here and below: for a task of an earlier run of the same id
// the run is not there. Callers that are no task pass 0.
func (l *Ledger) Settle(ctx context.Context, run, kind string, generation int, items []int64, outcome, detail string) error {
	_, err := l.settle(ctx, run, kind, generation, items, outcome, detail, "", nil)
	return err
}

// SettleRow is Settle of one row by an execution that knows of its mark, of that name
// and value, as [Ledger.Begin] has set it; of none where the value is empty. Where the
// row has another one by now nothing is settled, and against is "begun". Evidence, if
// any, is kept with the outcome: see [Ledger.Row].
func (l *Ledger) SettleRow(ctx context.Context, run, kind string, generation int, item int64, name string, mark []byte, outcome, detail string, evidence []byte) (against string, err error) {
	known := "="
	if len(mark) > 0 {
		known += name + ":" + string(mark)
	}
	return l.settle(ctx, run, kind, generation, []int64{item}, outcome, detail, known, evidence)
}

func (l *Ledger) settle(ctx context.Context, run, kind string, generation int, items []int64, outcome, detail, known string, evidence []byte) (against string, err error) {
	if err := checkID(run); err != nil {
		return "", err
	}
	if !outcomePattern.MatchString(outcome) {
		return "", fmt.Errorf("run %s: settle: outcome %s: want 1 to 32 of a-z and _", run, quoted(outcome))
	}
	args, err := rowArgs(run, items, kind, generation, outcome, quote(detail, maxDetail), known, evidence)
	var rest []any
	if err == nil {
		_, rest, err = l.do(ctx, settleScript, run, map[string]string{"kind": kind}, args...)
	}
	if err != nil {
		return "", fmt.Errorf("run %s: settle %d rows as %s: %w", run, len(items), outcome, err)
	}
	against, _ = rest[0].(string)
	return against, nil
}

// Settled says of each of the rows whether its fate is known, or [ErrNotFound].
// Of a row that the run does not have it says false.
func (l *Ledger) Settled(ctx context.Context, run string, items []int64) ([]bool, error) {
	settled, _, _, err := l.Standing(ctx, run, "", 0, items)
	return settled, err
}

// Standing is what whoever is about to work on rows has to know, in one step:
// which of them are settled; of a single row its marks by name, that of
// [Ledger.Begin] too; and why a task of that generation is to be dropped although
// rows are open, [DropCancelled], [DropPaused] or [DropSuperseded], empty if it is
// not. The error is [ErrNotFound] when there is no such run, a [MismatchError]
// when it is of another kind or has no such row; an empty kind asks for neither,
// nor for marks.
func (l *Ledger) Standing(ctx context.Context, run, kind string, generation int, items []int64) (settled []bool, marks map[string][]byte, drop string, err error) {
	if err := checkID(run); err != nil {
		return nil, nil, "", err
	}
	args, err := rowArgs(run, items, kind, generation)
	if err != nil {
		return nil, nil, "", fmt.Errorf("run %s: read which rows are settled: %w", run, err)
	}
	_, rest, err := l.do(ctx, standingScript, run, map[string]string{"kind": kind}, args...)
	if err != nil {
		return nil, nil, "", fmt.Errorf("run %s: read which rows are settled: %w", run, err)
	}
	bits, _ := rest[0].(string)
	if len(bits) != len(items) {
		return nil, nil, "", fmt.Errorf("run %s: read which rows are settled: redis answered for %d of %d rows", run, len(bits), len(items))
	}
	settled = make([]bool, len(items))
	for i := range settled {
		settled[i] = bits[i] == '1'
	}
	marks = map[string][]byte{}
	drop, _ = rest[1].(string)
	for name, value := range pairs(rest[2:]) {
		marks[name] = []byte(value)
	}
	return settled, marks, drop, nil
}

// rowArgs are a script's arguments that end in rows.
func rowArgs(run string, items []int64, before ...any) ([]any, error) {
	args := make([]any, 0, len(before)+len(items))
	args = append(args, before...)
	for _, item := range items {
		if err := checkItem(run, item); err != nil {
			return nil, err
		}
		args = append(args, item)
	}
	return args, nil
}

// Note says of open rows why they are open, and when they are looked at next
// (zero: not known). Of a settled row it says nothing and is ignored.
func (l *Ledger) Note(ctx context.Context, run string, generation int, items []int64, reason string, next time.Time) error {
	if err := checkID(run); err != nil {
		return err
	}
	args, err := rowArgs(run, items, generation, toMillis(next), quote(reason, maxDetail))
	if err == nil {
		_, _, err = l.do(ctx, noteScript, run, nil, args...)
	}
	if err != nil {
		return fmt.Errorf("run %s: note on %d rows: %w", run, len(items), err)
	}
	return nil
}

// evidenceMark is the mark with what a look found. It is read by [Ledger.Row] alone,
// and of a row that expired it is kept with what became of the row.
const evidenceMark = "evidence"

// Looked keeps what a look leaves of a row that stays open, in one step: the note, as
// [Ledger.Note] does; what it was that was found, nothing where that is nil; and
// marks by name, which outlive a crash: what was read, or is about to be done.
// Each replaces what was there under that name. Settling the row drops all of it, but
// for what was found of one that expired. Of a settled row it keeps nothing.
func (l *Ledger) Looked(ctx context.Context, run string, item int64, generation int, reason string, next time.Time, evidence []byte, marks map[string][]byte) error {
	args := []any{item, generation, toMillis(next), quote(reason, maxDetail)}
	if evidence != nil {
		args = append(args, evidenceMark, evidence)
	}
	err := errors.Join(checkID(run), checkItem(run, item))
	for name, value := range marks {
		err = errors.Join(err, checkMark(run, item, name))
		args = append(args, name, value)
	}
	if err == nil {
		_, _, err = l.do(ctx, lookedScript, run, nil, args...)
	}
	if err != nil {
		return fmt.Errorf("run %s: store the evidence of row %d: %w", run, item, err)
	}
	return nil
}

// Begin keeps the mark of a row whose one request is about to be sent, and that
// the row has begun: a cancel leaves it open from here on, until it is known what
// became of the request. An empty value says that it has not begun after all.
// There is one such mark a row; [Ledger.Standing] tells it beside those that
// [Ledger.Looked] keeps, and settling the row drops it.
//
// against is what stands against it, as [Ledger.Standing] says it for a task of
// that generation, or [AlreadySettled]; empty: nothing. A row that had not begun has not
// then, and nothing must be sent. The mark of one that had is replaced, or taken
// away, all the same, except by a task that is superseded, and by one that has not
// read it: former is the mark as the caller knows it, empty for none, and where
// another one is there the answer is [BegunMeanwhile].
func (l *Ledger) Begin(ctx context.Context, run string, item int64, generation int, name string, value, former []byte) (against string, err error) {
	return l.begin(ctx, run, item, generation, name, value, former, 0)
}

// Amend is Begin for a row that has begun: where its mark is there no more, because
// another execution has taken it away or Redis has lost it, the answer is
// [BegunMeanwhile] too. Taking it away twice is no error.
func (l *Ledger) Amend(ctx context.Context, run string, item int64, generation int, name string, value, former []byte) (against string, err error) {
	return l.begin(ctx, run, item, generation, name, value, former, 1)
}

func (l *Ledger) begin(ctx context.Context, run string, item int64, generation int, name string, value, former []byte, amends int) (against string, err error) {
	if err := checkMark(run, item, name); err != nil {
		return "", err
	}
	_, rest, err := l.do(ctx, beginScript, run, nil, item, generation, name, value, former, amends)
	if err != nil {
		return "", fmt.Errorf("run %s: begin %s of row %d: %w", run, name, item, err)
	}
	against, _ = rest[0].(string)
	return against, nil
}

func checkMark(run string, item int64, name string) error {
	if err := checkID(run); err != nil {
		return err
	}
	if name == evidenceMark {
		return fmt.Errorf("run %s: intent %s of row %d: the name is reserved for results of checks", run, name, item)
	}
	if !markPattern.MatchString(name) {
		return fmt.Errorf("run %s: intent %s: want 1 to 32 of a-z and _", run, quoted(name))
	}
	if err := checkItem(run, item); err != nil {
		return fmt.Errorf("run %s: intent %s of row %d: %w", run, name, item, err)
	}
	return nil
}
