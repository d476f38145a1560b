package ledger

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"orgops/internal/untrusted"
)

// Execution identifies an execution that is to begin.
type Execution struct {
	// Token is the token of the release.
	Token Token
	// Nonce is chosen by the worker once for this execution.
	Nonce Nonce
	// Session is the worker's session.
	Session SessionID
}

func (e Execution) validate() error {
	if err := e.Token.Validate(); err != nil {
		return err
	}
	if err := e.Nonce.Validate(); err != nil {
		return err
	}
	return e.Session.Validate()
}

// Begun is the answer to [Ledger.Begin].
type Begun struct {
	Rows []BegunRow // in the caller's order
	Receipt
}

// BegunRow is a row that was to begin.
type BegunRow struct {
	Row Row
	// Status is RowAdmitted, RowSettled, RowSuperseded or RowStopped.
	Status Status
	// Checkpoint is set if the row is admitted.
	Checkpoint Checkpoint
	// Intent is the intent of an earlier execution of an admitted row; nil if there is
	// none.
	Intent *Intent
	// Err says why the stored values of an admitted row cannot be read; nil if they can. The
	// row must not be worked on, only ended.
	Err error
}

// Checkpoint is the stored state of a row between its executions. Before the first
// execution it has stage [StageCheck] and nothing else.
type Checkpoint struct {
	Stage Stage
	// Attempts counts executions that ended with [Waiting.CountAttempt], or without a
	// write, apart from the first two of those in Died.
	Attempts int
	// Died counts executions that died with their worker since one ended. From two on the
	// row may be the cause, and is to be executed alone.
	Died int
	// FirstBegun is the begin of the first execution that left the row open, in Redis'
	// time; zero if there was none.
	FirstBegun time.Time
	// Note is that of the last execution, if it gave the row back.
	Note string
	// Memo is the memo of the last execution, in that execution's own form.
	Memo []byte
}

// Intent is the intent of a request, stored before the request is made.
type Intent struct {
	At    time.Time
	Value []byte
}

// Begin exchanges the token of each row for the nonce. It admits one execution for each
// release, however often the row is delivered: with the same nonce it may be
// repeated. Only admitted rows may be worked on, and each later write carries the nonce.
func (l *Ledger) Begin(ctx context.Context, seg Segment, e Execution, rows ...Row) (b Begun, err error) {
	defer wrap(&err, "segment %s: begin", seg)
	if err := e.validate(); err != nil {
		return Begun{}, err
	}
	if err := checkRows(rows); err != nil {
		return Begun{}, err
	}
	for part := range slices.Chunk(rows, scriptRows) {
		args := []any{string(e.Token), string(e.Nonce), string(e.Session)}
		a, err := l.onSegment(ctx, beginScript, seg, append(args, ints(part)...)...)
		if err != nil {
			return Begun{}, err
		}
		receipt := parseReceipt(a)
		for i, row := range part {
			answer := a.list(6).list(i)
			begun := BegunRow{Row: row, Status: Status(answer.text(0))}
			if begun.Status == RowAdmitted {
				begun.Checkpoint, begun.Intent, begun.Err = parseStored(row, answer.text(1), answer.text(2), receipt.Now)
			}
			b.Rows = append(b.Rows, begun)
			receipt.Statuses = append(receipt.Statuses, begun.Status)
		}
		b.add(receipt)
	}
	return b, nil
}

// parseStored reads checkpoint and intent of an open row.
func parseStored(row Row, value, intent string, now time.Time) (c Checkpoint, i *Intent, err error) {
	if c, err = parseCheckpoint(value, now); err == nil {
		i, err = parseIntent(intent, now)
	}
	if err != nil {
		err = fmt.Errorf("row %d: %w", row, err)
	}
	return c, i, err
}

// checkpointPattern is <stage><attempts>,<first begin in ms>,<beginning of the token or
// nonce that ended last><executions that died since>; before the memo. With a note, its size
// follows: ,<size>; before note and memo.
var checkpointPattern = regexp.MustCompile(`^([A-Za-z])([0-9]+),([0-9]+),(?:[A-Za-z0-9]{6})?([0-9]*)(?:,([0-9]+))?;`)

// parseCheckpoint reads the value that is stored with a row, or "" for none. No time is
// later than now: Redis' clock was ahead when it was stored.
func parseCheckpoint(stored string, now time.Time) (Checkpoint, error) {
	if stored == "" {
		return Checkpoint{Stage: StageCheck}, nil
	}
	parts := checkpointPattern.FindStringSubmatch(stored)
	if parts == nil {
		return Checkpoint{}, fmt.Errorf("stored checkpoint %s", untrusted.Value(stored))
	}
	attempts, err := strconv.Atoi(parts[2])
	ms, err2 := strconv.ParseInt(parts[3], 10, 64)
	died, err3 := strconv.Atoi(cmp.Or(parts[4], "0"))
	size, err4 := strconv.Atoi(cmp.Or(parts[5], "0"))
	rest := stored[len(parts[0]):]
	if err = cmp.Or(err, err2, err3, err4); err != nil || size > len(rest) {
		return Checkpoint{}, fmt.Errorf("stored checkpoint %s: %w", untrusted.Value(stored), err)
	}
	c := Checkpoint{Stage: stageOf(parts[1]), Attempts: attempts, Died: died,
		FirstBegun: notAfter(fromMillis(ms), now), Note: rest[:size]}
	if memo := rest[size:]; memo != "" {
		c.Memo = []byte(memo)
	}
	return c, nil
}

// parseIntent reads <ms>:<value>, or "" for none. Its time is not later than now.
func parseIntent(stored string, now time.Time) (*Intent, error) {
	if stored == "" {
		return nil, nil
	}
	digits, value, _ := strings.Cut(stored, ":")
	ms, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("stored intent: %w", err)
	}
	return &Intent{At: notAfter(fromMillis(ms), now), Value: []byte(value)}, nil
}

func notAfter(t, now time.Time) time.Time {
	if t.After(now) {
		return now
	}
	return t
}
