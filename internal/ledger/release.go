package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"

	"github.com/redis/go-redis/v9"
)

// Stage is the stage of a row between its executions.
type Stage string

const (
	// StageCheck is the stage of a row that is to be checked, first or again.
	StageCheck Stage = "check"
	// StageReady is the stage of a row whose token a check has found. It needs a permit: its proof and
	// its request are next.
	StageReady Stage = "ready"
)

// letter returns the letter by which a stage is stored; "" for one that is not known.
func (s Stage) letter() string {
	switch s {
	case StageCheck:
		return "c"
	case StageReady:
		return "r"
	}
	return ""
}

// stageOf returns the stage that is stored as a letter. That of a newer version is the
// letter itself.
func stageOf(letter string) Stage {
	switch letter {
	case "c":
		return StageCheck
	case "r":
		return StageReady
	}
	return Stage(letter)
}

// Quota bounds the number of rows to release, by sort.
type Quota struct {
	// First bounds the rows that were never in progress.
	First int
	// Check and Ready bound the due rows at these stages.
	Check, Ready int
	// Pieces bounds the pieces of rows that are released for the first time, and PieceRows the
	// rows of a piece, which are of one group: see [Stager.Group]. 0: not bounded.
	Pieces, PieceRows int
}

// Release is the answer to [Ledger.Release]: rows to be executed now.
type Release struct {
	Token Token
	Rows  []ReleasedRow
	// Receipt has no statuses. Its Due is when the segment is to be inspected, as in [SegmentState],
	// and is stored in the index.
	Receipt
	// Open counts the segment's open rows after the release.
	Open OpenRows
}

// ReleasedRow is a released row with its content.
type ReleasedRow struct {
	Row     Row
	Content []byte
	// Err says why the content cannot be read; nil if it can.
	Err error
}

// Release releases due rows: first rows at stage ready, then rows at stage check, then rows that
// were never in progress, those with a due time first. Of each stage, rows with an intent come
// first, then the others in the order of their due times. Rows that were never released come in
// the order of their numbers, or by groups: see [Stager.Group]. The rows carry a new token, which
// [Ledger.Begin] exchanges. A row that is not begun within [ReleaseTimeout] is due again; so is
// one whose execution takes longer than [ExecutionLimit]. While the run is paused or not yet to
// start, only rows with an intent are released. At most 250 rows are released at once, and fewer
// if they are large: see [OpenRows] for those that are due. At maxmemory nothing is released and
// the segment stays as it is. The error is [ErrDamaged] if what is stored of the segment cannot
// be read.
func (l *Ledger) Release(ctx context.Context, seg Segment, q Quota) (r Release, err error) {
	defer wrap(&err, "segment %s: release", seg)
	token := NewToken()
	a, err := l.onSegment(ctx, releaseScript, seg, string(token), q.First, q.Check, q.Ready, cmp.Or(q.Pieces, releaseRows),
		cmp.Or(q.PieceRows, releaseRows))
	if isScriptFault(err) {
		return Release{}, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if err != nil {
		return Release{}, err
	}
	rows, err := releasedRows(a.list(6))
	if err != nil {
		return Release{}, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return Release{Token: token, Rows: rows, Receipt: parseReceipt(a), Open: parseOpenRows(a.list(7))}, nil
}

// scriptFault matches the errors of a script that has stopped at a fault of its own, which name
// the script and the line, and those of a command that has found a key of another type. The
// embedded Redis has other words. A command that Redis refuses, as at maxmemory, is an error of
// another form: "... script: <hash>, on @user_script:12", and with Redis 6 "... @user_script:12:
// OOM ...".
var scriptFault = regexp.MustCompile(`(^|[^@])user_script:\d+: |WRONGTYPE|Error compiling script`)

// isScriptFault reports whether a script has found a value that it does not expect, as that of a
// lost field.
func isScriptFault(err error) bool {
	failed, ok := errors.AsType[redis.Error](err)
	return ok && scriptFault.MatchString(failed.Error())
}

// releasedRows reads rows and chunks from the values of the script.
func releasedRows(a answer) ([]ReleasedRow, error) {
	content, err := parseContents(int(a.int(1)), a.list(2))
	if err != nil {
		return nil, err
	}
	var released []ReleasedRow
	for _, number := range a.list(0).texts() {
		row, err := strconv.Atoi(number)
		if err != nil {
			return nil, fmt.Errorf("number of a row: %w", err)
		}
		r := ReleasedRow{Row: Row(row)}
		r.Content, r.Err = content.row(r.Row)
		released = append(released, r)
	}
	return released, nil
}

// GiveBack gives back rows that were released and did not begin, for example because they
// could not be enqueued: they are due at once. Rows of a cancelled run it settles as
// cancelled. An execution gives rows back with [Ledger.End].
func (l *Ledger) GiveBack(ctx context.Context, seg Segment, t Token, rows ...Row) (Receipt, error) {
	err := t.Validate()
	if err == nil {
		err = checkRows(rows)
	}
	return l.write(ctx, seg, rowWrite{
		"give back", giveBackScript, err, []any{string(t)}, rowParts(rows, scriptRows),
	})
}

// Dismiss settles rows that are neither in progress nor have an intent, such as one that
// cannot be read. Other rows are RowSuperseded.
func (l *Ledger) Dismiss(ctx context.Context, seg Segment, r Result, rows ...Row) (Receipt, error) {
	err := r.validate()
	if err == nil {
		err = checkRows(rows)
	}
	return l.write(ctx, seg, rowWrite{
		"dismiss", dismissScript, err, []any{string(r.Outcome), r.stored()}, rowParts(rows, scriptRows),
	})
}
