package ledger

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
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

// Begun is the answer to [Ledger.Begin].
type Begun struct {
	Rows []BegunRow // in the caller's order
	// Now is Redis' time.
	Now time.Time
	// FinishOnly says that no new request may begin: the run is paused, held or
	// cancelled, and rows were admitted that may have a request under way.
	FinishOnly bool
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
}

// Checkpoint is the stored state of a row between its executions. Before the first
// execution it has stage [StageCheck] and nothing else.
type Checkpoint struct {
	Stage Stage
	// Attempts counts executions that ended with [Waiting.CountAttempt], or without a
	// write.
	Attempts int
	// FirstBegun is the begin of the first execution that left the row open, in Redis'
	// time; zero if there was none.
	FirstBegun time.Time
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
	err = firstError(e.Token.Validate(), e.Nonce.Validate(), e.Session.Validate(), checkRows(rows))
	for part := range slices.Chunk(rows, scriptRows) {
		if err == nil {
			err = l.begin(ctx, seg, e, part, &b)
		}
	}
	if err != nil {
		return Begun{}, fmt.Errorf("segment %s: begin: %w", seg, err)
	}
	return b, nil
}

// begin begins as many rows as one script may, and adds them to b.
func (l *Ledger) begin(ctx context.Context, seg Segment, e Execution, rows []Row, b *Begun) error {
	args := []any{string(e.Token), string(e.Nonce), string(e.Session)}
	a, err := l.onSegment(ctx, beginScript, seg, append(args, rowArgs(rows)...)...)
	if err != nil {
		return err
	}
	receipt, err := l.receipt(ctx, seg, a)
	if err != nil {
		return err
	}
	b.Now, b.FinishOnly = fromMillis(a.int(3)), a.int(4) == 1
	for i, row := range rows {
		begun, err := parseBegunRow(row, a.list(5).list(i))
		if err != nil {
			return fmt.Errorf("row %d: %w", row, err)
		}
		b.Rows = append(b.Rows, begun)
		receipt.Statuses = append(receipt.Statuses, begun.Status)
	}
	b.add(receipt)
	return nil
}

func parseBegunRow(row Row, a answer) (b BegunRow, err error) {
	b = BegunRow{Row: row, Status: Status(a.text(0))}
	if b.Status != RowAdmitted {
		return b, nil
	}
	if b.Checkpoint, err = parseCheckpoint(a.text(1)); err != nil {
		return b, err
	}
	b.Intent, err = parseIntent(a.text(2))
	return b, err
}

// parseCheckpoint reads <stage><attempts>,<first begin in ms>;<memo>, or "" for none.
func parseCheckpoint(stored string) (Checkpoint, error) {
	if stored == "" {
		return Checkpoint{Stage: StageCheck}, nil
	}
	head, memo, found := strings.Cut(stored, ";")
	counted, first, found2 := strings.Cut(head, ",")
	if !found || !found2 || len(counted) < 2 {
		return Checkpoint{}, fmt.Errorf("stored checkpoint %s", quoted(stored))
	}
	attempts, err := strconv.Atoi(counted[1:])
	if err != nil {
		return Checkpoint{}, fmt.Errorf("stored checkpoint: attempts: %w", err)
	}
	ms, err := strconv.ParseInt(first, 10, 64)
	if err != nil {
		return Checkpoint{}, fmt.Errorf("stored checkpoint: first begin: %w", err)
	}
	c := Checkpoint{Stage: stageOf(counted[:1]), Attempts: attempts, FirstBegun: fromMillis(ms)}
	if memo != "" {
		c.Memo = []byte(memo)
	}
	return c, nil
}

// parseIntent reads <ms>:<value>, or "" for none.
func parseIntent(stored string) (*Intent, error) {
	if stored == "" {
		return nil, nil
	}
	digits, value, _ := strings.Cut(stored, ":")
	ms, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("stored intent: %w", err)
	}
	return &Intent{At: fromMillis(ms), Value: []byte(value)}, nil
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
