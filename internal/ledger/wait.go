package ledger

import (
	"context"
	"fmt"
	"time"
)

// Waiting is how an execution leaves its rows open.
type Waiting struct {
	Stage Stage
	// After is when the rows are due, from now on: at most [MaxWait].
	After time.Duration
	// CountAttempt says that an attempt was used up.
	CountAttempt bool
	// Memo replaces the rows' memo, such as a record and evidence, for the next execution
	// and for people. It has at most 16 KiB.
	Memo []byte
}

// Wait ends an execution and leaves its rows open until they are due. Of a cancelled run
// it settles rows without an intent as cancelled.
func (l *Ledger) Wait(ctx context.Context, seg Segment, n Nonce, w Waiting, rows ...Row) (Receipt, error) {
	if err := firstError(n.Validate(), w.validate()); err != nil {
		return Receipt{}, fmt.Errorf("segment %s: wait: %w", seg, err)
	}
	return l.write(ctx, "wait", waitScript, seg, rows,
		string(n), w.Stage.letter(), w.After.Milliseconds(), flag(w.CountAttempt), w.Memo)
}

func (w Waiting) validate() error {
	switch {
	case w.Stage.letter() == "":
		return fmt.Errorf("stage %s: want check or ready", quoted(string(w.Stage)))
	case w.After < 0 || w.After > MaxWait:
		return fmt.Errorf("wait %v: want 0 to %v", w.After, MaxWait)
	case len(w.Memo) > maxResult:
		return fmt.Errorf("memo of %d bytes: want at most %d", len(w.Memo), maxResult)
	}
	return nil
}

// Return makes rows due at once that were released and not begun, for example because
// they could not be enqueued.
func (l *Ledger) Return(ctx context.Context, seg Segment, t Token, rows ...Row) (Receipt, error) {
	if err := t.Validate(); err != nil {
		return Receipt{}, fmt.Errorf("segment %s: return: %w", seg, err)
	}
	return l.write(ctx, "return", returnScript, seg, rows, "r"+string(t), 0)
}

// GiveUp ends an execution as if it had not begun: the rows are due after the time
// given, at most [MaxWait], no attempt is counted and their memo stays. A worker that
// stops, or that does not know the rows' kind, calls it.
func (l *Ledger) GiveUp(ctx context.Context, seg Segment, n Nonce, after time.Duration, rows ...Row) (Receipt, error) {
	err := n.Validate()
	if err == nil && (after < 0 || after > MaxWait) {
		err = fmt.Errorf("wait %v: want 0 to %v", after, MaxWait)
	}
	if err != nil {
		return Receipt{}, fmt.Errorf("segment %s: give up: %w", seg, err)
	}
	return l.write(ctx, "give up", returnScript, seg, rows, "b"+string(n), after.Milliseconds())
}

// Reclaim makes due the rows that dead sessions execute, and counts an attempt for each.
// It returns the number of rows.
func (l *Ledger) Reclaim(ctx context.Context, seg Segment, dead ...SessionID) (n int, r Receipt, err error) {
	args := []any{scriptRows}
	for _, s := range dead {
		args = append(args, string(s))
	}
	for {
		a, err := l.onSegment(ctx, reclaimScript, seg, args...)
		if err != nil {
			return n, r, fmt.Errorf("segment %s: reclaim: %w", seg, err)
		}
		some := int(a.int(3))
		n += some
		one, err := l.receipt(ctx, seg, a)
		r.add(one)
		if err != nil || some < scriptRows {
			return n, r, err
		}
	}
}
