package runs

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"orgops/internal/ledger"
)

var (
	// ErrCancelled says that rows were to be stored in a run that was cancelled.
	ErrCancelled = errors.New("the run was cancelled: no more of its rows can be submitted")
	// ErrOpen says that what was asked takes a run that has ended.
	ErrOpen = ledger.ErrOpen
	// ErrEnded says that what was asked takes a run that has not ended.
	ErrEnded = ledger.ErrEnded
	// ErrUnsealed says that what was asked takes a run of which all rows are in.
	ErrUnsealed = errors.New("the run is still being submitted")
	// ErrPaused says that what was asked takes a run that is not paused.
	ErrPaused = errors.New("the run is paused")
)

// Cancel settles every open row as "cancelled", in one step whatever their
// number, but for those that have begun ([Ledger.Begin]): they stay open until it
// is known what became of them, and the run ends with the last of them. A run
// that is not sealed is sealed with the rows that are stored, and takes no more.
// rows is how many were settled; of a run that has ended none is. What is under
// way without having said so goes on too, and is told by a "done" that replaces
// the "cancelled". A run of the core that is not sealed ends without rows.
func (l *Ledger) Cancel(ctx context.Context, run string) (rows int64, err error) {
	switch core, found, err := l.inCore(ctx, run); {
	case err != nil:
		return 0, err
	case found:
		return l.cancelCore(ctx, core)
	}
	if err := checkID(run); err != nil {
		return 0, err
	}
	// As in Seal: it may stay open for a while, and Unsettled has to know of it.
	if err := sealedScript.Run(ctx, l.rdb, []string{sealedKey}, run).Err(); err != nil {
		return 0, fmt.Errorf("run %s: cancel: %w", run, err)
	}
	_, rest, err := l.do(ctx, cancelScript, run, nil)
	if err != nil {
		return 0, fmt.Errorf("run %s: cancel: %w", run, err)
	}
	rows, _ = rest[0].(int64)
	return rows, nil
}

// Delete forgets a run that has ended: its rows and what became of them. The
// error is [ErrOpen] if it has not. Of the core it deletes also one that is not sealed.
func (l *Ledger) Delete(ctx context.Context, run string) error {
	switch core, found, err := l.inCore(ctx, run); {
	case err != nil:
		return err
	case found:
		return l.deleteCore(ctx, core)
	}
	if err := checkID(run); err != nil {
		return err
	}
	parent, err := l.rdb.HGet(ctx, key(run, "run"), "parent").Result()
	if err != nil && !errAbsent(err) {
		return fmt.Errorf("run %s: delete: %w", run, err)
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
	if err == nil {
		err = l.Told(ctx, run)
	}
	if err == nil && parent != "" {
		err = l.disown(ctx, parent, run)
	}
	if err != nil {
		return fmt.Errorf("run %s: delete: %w", run, err)
	}
	return nil
}

// Why a task is dropped although its rows are open, as Standing says it.
const (
	DropCancelled  = "cancelled"  // its run was cancelled; a row that has begun is finished all the same
	DropPaused     = "paused"     // its run is paused
	DropSuperseded = "superseded" // its run was resumed since, and has other tasks
)

// AlreadySettled stands against beginning a row of which the fate is known.
const AlreadySettled = "settled"

// BegunMeanwhile stands against beginning a row that another execution has begun.
const BegunMeanwhile = "begun"

// Pause lets the tasks of the run drop as they come up; their rows stay open. To
// pause again is harmless. The error is [ErrEnded] if the run has ended, or was
// cancelled.
func (l *Ledger) Pause(ctx context.Context, run string) error {
	switch core, found, err := l.inCore(ctx, run); {
	case err != nil:
		return err
	case found:
		return l.pauseCore(ctx, core)
	}
	if err := checkID(run); err != nil {
		return err
	}
	status, _, err := l.do(ctx, pauseScript, run, nil)
	if err == nil && status == "ended" {
		err = ErrEnded
	}
	if err != nil {
		return fmt.Errorf("run %s: pause: %w", run, err)
	}
	return nil
}

// Resume ends the pause and raises the run's generation and its floor: tasks of an
// older one are dropped from here on, and the caller enqueues what is open, then calls
// [Ledger.Resumed]. todo is false where there is nothing to enqueue: the run was
// not paused. Where a caller died in between, todo is true again, and the
// generation is the same. The error is [ErrEnded] if the run has ended,
// [ErrUnsealed] if it is still being submitted. Of a run of the core todo is false: its
// rows are released again.
func (l *Ledger) Resume(ctx context.Context, run string) (todo bool, err error) {
	switch core, found, err := l.inCore(ctx, run); {
	case err != nil:
		return false, err
	case found:
		return false, l.resumeCore(ctx, core)
	}
	if err := checkID(run); err != nil {
		return false, err
	}
	status, rest, err := l.do(ctx, resumeScript, run, nil)
	switch {
	case err != nil:
	case status == "ended":
		err = ErrEnded
	case status == "unsealed":
		err = ErrUnsealed
	default:
		return rest[0] == int64(1), nil
	}
	return false, fmt.Errorf("run %s: resume: %w", run, err)
}

// Repair raises the generation of a run that has lost tasks; those that still
// stand are not dropped. The caller enqueues what is lost, then calls
// [Ledger.Resumed]. Where a caller died in between, or another is at it, the
// generation is the same. The error is [ErrEnded] if the run has ended,
// [ErrPaused] if it is paused, [ErrUnsealed] if it is still being submitted. A run of the
// core has nothing to repair.
func (l *Ledger) Repair(ctx context.Context, run string) error {
	switch _, found, err := l.inCore(ctx, run); {
	case err != nil:
		return err
	case found:
		return nil
	}
	if err := checkID(run); err != nil {
		return err
	}
	status, _, err := l.do(ctx, repairScript, run, nil)
	switch {
	case err != nil:
	case status == "ended":
		err = ErrEnded
	case status == "paused":
		err = ErrPaused
	case status == "unsealed":
		err = ErrUnsealed
	default:
		return nil
	}
	return fmt.Errorf("run %s: repair: %w", run, err)
}

// Resumed says that every open row of the run has a task: of that generation, or
// of one before it that is not dropped.
func (l *Ledger) Resumed(ctx context.Context, run string, generation int) error {
	if err := checkID(run); err != nil {
		return err
	}
	if _, _, err := l.do(ctx, resumedScript, run, nil, generation); err != nil {
		return fmt.Errorf("run %s: resume: %w", run, err)
	}
	return nil
}
