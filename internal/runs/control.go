package runs

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"
)

var (
	// ErrCancelled says that rows were to be stored in a run that was cancelled.
	ErrCancelled = errors.New("the run was cancelled: no more of its rows can be handed in")
	// ErrOpen says that what was asked takes a run that has ended.
	ErrOpen = errors.New("the run has not ended")
)

// Cancel settles every open row as "cancelled", in one step whatever their
// number, and ends the run thereby. A run that is not sealed is sealed with the
// rows that are stored, and takes no more. rows is how many were open; of a run
// that has ended none is. What is under way goes on, and is told by a "done" that
// replaces the "cancelled".
func (l *Ledger) Cancel(ctx context.Context, run string) (rows int64, err error) {
	if err := checkID(run); err != nil {
		return 0, err
	}
	_, rest, err := l.do(ctx, cancelScript, run, nil)
	if err != nil {
		return 0, fmt.Errorf("run %s: cancel: %w", run, err)
	}
	rows, _ = rest[0].(int64)
	return rows, nil
}

// Delete forgets a run that has ended: its rows and what became of them. The
// error is [ErrOpen] if it has not.
func (l *Ledger) Delete(ctx context.Context, run string) error {
	if err := checkID(run); err != nil {
		return err
	}
	// Read before, so that a run of the same id made meanwhile keeps its entry.
	score, err := l.rdb.ZScore(ctx, indexKey, run).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return fmt.Errorf("run %s: delete: %w", run, err)
	}
	status, _, err := l.do(ctx, deleteScript, run, nil)
	if err == nil && status == "open" {
		err = ErrOpen
	}
	if err == nil {
		// Whoever dies before this leaves an entry that List trims.
		err = forgetScript.Run(ctx, l.rdb, []string{indexKey}, run, strconv.FormatFloat(score, 'f', -1, 64)).Err()
	}
	if err != nil {
		return fmt.Errorf("run %s: delete: %w", run, err)
	}
	return nil
}
