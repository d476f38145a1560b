package ledger

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Control is the intended state of a run. While it is paused, incomplete or not yet to
// start, only rows with an intent begin.
type Control struct {
	// Paused is set by people.
	Paused bool
	// Cancelled settles every row that has not begun. It is final.
	Cancelled bool
	// Incomplete is set while segments are missing: see [MissingError].
	Incomplete bool
	// NotBefore is when rows may begin, in Redis' time; zero: at once. It does not change.
	NotBefore time.Time
}

// stopped reports whether no row without an intent may begin at a time of Redis.
func (c Control) stopped(now time.Time) bool {
	return c.Paused || c.Cancelled || c.Incomplete || c.NotBefore.After(now)
}

// The letters by which a control's flags are stored.
const (
	pausedFlag     = "p"
	cancelledFlag  = "c"
	incompleteFlag = "i"
)

func (c Control) flags() string {
	var flags strings.Builder
	for _, f := range []struct {
		set    bool
		letter string
	}{{c.Paused, pausedFlag}, {c.Cancelled, cancelledFlag}, {c.Incomplete, incompleteFlag}} {
		if f.set {
			flags.WriteString(f.letter)
		}
	}
	return flags.String()
}

func parseControl(flags string, notBefore int64) Control {
	return Control{
		Paused:     strings.Contains(flags, pausedFlag),
		Cancelled:  strings.Contains(flags, cancelledFlag),
		Incomplete: strings.Contains(flags, incompleteFlag),
		NotBefore:  fromMillis(notBefore),
	}
}

// change is a change of a control's flags.
type change struct{ set, clear string }

// Pause stops the run's rows from beginning. Rows in progress may be settled, but begin no
// further request; rows with an intent are finished. The error is [ErrEnded] if the run
// has ended or was cancelled.
func (l *Ledger) Pause(ctx context.Context, run RunID) error {
	_, err := l.control(ctx, "pause", run, change{set: pausedFlag})
	return err
}

// Resume undoes [Ledger.Pause].
func (l *Ledger) Resume(ctx context.Context, run RunID) error {
	resumed, err := l.control(ctx, "resume", run, change{clear: pausedFlag})
	if err == nil {
		_ = l.Wake(ctx, resumed.Tenant) // else the next poll finds the rows
	}
	return err
}

// Cancel settles the rows of the run as cancelled. Rows in progress and rows with an
// intent are finished, and the run ends with the last of them. It is final. A staged run
// ends without rows. The error is [ErrEnded] if the run has ended.
func (l *Ledger) Cancel(ctx context.Context, run RunID) error {
	_, err := l.control(ctx, "cancel", run, change{set: cancelledFlag})
	return err
}

// control stores the change in the header, then copies the header's control to each
// segment. If it returns an error after the first of these, a dispatcher does the rest.
func (l *Ledger) control(ctx context.Context, operation string, id RunID, c change) (Run, error) {
	run, err := l.Get(ctx, id)
	if err != nil {
		return Run{}, err
	}
	if run.Cancelled && c.set == pausedFlag {
		err = ErrEnded
	} else {
		_, err = l.syncRun(ctx, run, c) // first the rows: the node of the tenant's lists may be away
		err = errors.Join(err, l.relist(ctx, run))
	}
	if err != nil {
		return Run{}, fmt.Errorf("run %s: %s: %w", id, operation, err)
	}
	return run, nil
}

// copyAttempts bounds the repetitions if others change the control meanwhile.
const copyAttempts = 8

// converge stores the change in the header and copies the header's control to the segments.
// If a segment has one that the header does not know, since its Redis lost it, the header
// adopts that one, with the change.
func (l *Ledger) converge(ctx context.Context, run Run, c change) (copied, error) {
	var unknown versioned
	for range copyAttempts {
		if c != (change{}) || unknown.version > 0 {
			a, err := l.onHeader(ctx, controlScript, run, c.set, c.clear, unknown.version, unknown.flags)
			if err == nil {
				run, err = parseRun(run.ID, a.hash(1))
			}
			if err != nil {
				return copied{}, err
			}
		}
		state, err := l.copyControl(ctx, run)
		if state.newest == nil {
			return state, err
		}
		unknown = *state.newest
	}
	return copied{}, ErrChanging
}
