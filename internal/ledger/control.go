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
// has ended.
func (l *Ledger) Pause(ctx context.Context, run RunID) error {
	return l.control(ctx, "pause", run, change{set: pausedFlag})
}

// Resume undoes [Ledger.Pause].
func (l *Ledger) Resume(ctx context.Context, run RunID) error {
	resumed, err := l.tryControl(ctx, run, change{clear: pausedFlag})
	if err != nil {
		return fmt.Errorf("run %s: resume: %w", run, err)
	}
	_ = l.Wake(ctx, resumed.Tenant) // else the next poll finds the rows
	return nil
}

// Cancel settles the rows of the run as cancelled. Rows in progress and rows with an
// intent are finished, and the run ends with the last of them. It is final.
// The error is [ErrStaged] if the run is not committed, [ErrEnded] if it has ended.
func (l *Ledger) Cancel(ctx context.Context, run RunID) error {
	return l.control(ctx, "cancel", run, change{set: cancelledFlag})
}

// control stores the change in the header, then copies the header's control to each
// segment. If it returns an error after the first of these, a dispatcher does the rest.
func (l *Ledger) control(ctx context.Context, operation string, id RunID, c change) error {
	if _, err := l.tryControl(ctx, id, c); err != nil {
		return fmt.Errorf("run %s: %s: %w", id, operation, err)
	}
	return nil
}

func (l *Ledger) tryControl(ctx context.Context, id RunID, c change) (Run, error) {
	run, err := l.Get(ctx, id)
	if err != nil {
		return Run{}, err
	}
	run, failed := l.regain(ctx, run)
	// First the rows: the node of the tenant's lists may be away.
	return run, errors.Join(l.controlRun(ctx, run, c), failed, l.relist(ctx, run))
}

func (l *Ledger) controlRun(ctx context.Context, run Run, c change) error {
	bits, err := l.closedBits(ctx, run)
	if err != nil {
		return err
	}
	state, err := l.applyChange(ctx, run, c)
	if err != nil {
		return errors.Join(err, l.hint(ctx, state))
	}
	_, err = l.conclude(ctx, state, bits)
	return err
}

// applyChange stores the change in the header and copies it. If the header does not know
// the control of a segment, since its Redis lost it, the change is applied to that one too.
func (l *Ledger) applyChange(ctx context.Context, run Run, c change) (copied, error) {
	var unknown versioned
	for range copyAttempts {
		changed, err := l.storeChange(ctx, run, c, unknown)
		if err != nil {
			return copied{}, err
		}
		state, err := l.copyControl(ctx, changed)
		if state.newest == nil {
			return state, err
		}
		unknown = *state.newest
	}
	return copied{}, ErrChanging
}

// copyAttempts bounds the repetitions if others change the control meanwhile.
const copyAttempts = 8

// storeChange changes the control in the header and returns the run as it is then. With
// the control of a segment it changes that one, unless the header knows it already.
func (l *Ledger) storeChange(ctx context.Context, run Run, c change, of versioned) (Run, error) {
	a, err := l.onHeader(ctx, controlScript, run.ID, string(run.Incarnation), c.set, c.clear, of.version, of.flags)
	if err != nil {
		return Run{}, err
	}
	return parseRun(run.ID, a.hash(1))
}
