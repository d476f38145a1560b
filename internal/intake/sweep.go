package intake

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"orgops/internal/runs"
	"orgops/internal/scan"
	"orgops/internal/sweep"
	"orgops/internal/watch"
	"orgops/tasks"
)

// sweepKeptFor is how long a sweep's run is kept after its end: one of 200,000 domains
// takes 40 MB.
const sweepKeptFor = 7 * 24 * time.Hour

// BeginSweep creates the run of a sweep, whose rows a scan finds. A repetition changes
// nothing: the sweep keeps the tick with which it was created. If a run for something else
// has the id, the error is a *runs.MismatchError.
func (i Intake) BeginSweep(ctx context.Context, r Run, o sweep.Order) (run runs.Run, created bool, err error) {
	if o.Organization != "" {
		if err := tasks.CheckOrganization(o.Organization); err != nil {
			return runs.Run{}, false, err
		}
	}
	progress, err := scan.SweepProgress(o)
	if err != nil {
		return runs.Run{}, false, fmt.Errorf("sweep %s: %w", r.ID, err)
	}
	return i.createScan(ctx, runs.Run{
		ID: r.ID, Kind: tasks.TypeRecheck, Tenant: r.Tenant, Label: r.Label, Caller: r.Caller, Format: FormatJSONL,
		Digest: digestOf("sweep of %q, pending ones too: %t", o.Organization, o.Pending), KeepFor: sweepKeptFor,
	}, progress)
}

// SweepingError says that a sweep of the whole tenant is not begun, since another one
// is under way.
type SweepingError struct {
	Run string // the other one
	Why string // how far it is, and what to do about it
}

// Error names the other sweep.
func (e *SweepingError) Error() string {
	return fmt.Sprintf("sweep %s %s: sweep one organization alone meanwhile, or wait for it", e.Run, e.Why)
}

// SweepNow begins a sweep by hand, with the present as its tick where the order has
// none; the order of a run that is there already is that run's. Where nobody knows what
// the present is, our clock and Redis' being far apart, it is a *ClocksError. While a sweep of the
// whole tenant is under way, by hand or of the schedule, another one is refused with a
// *SweepingError; one of a single organization never is. store is the tenant's.
func (i Intake) SweepNow(ctx context.Context, store *watch.Store, r Run, o sweep.Order) (run runs.Run, created bool, err error) {
	at, err := i.readClocks(ctx, store)
	if err != nil {
		return runs.Run{}, false, err
	}
	if o.Tick == 0 {
		o.Tick = at.redis.Unix()
	}
	switch _, err = i.Ledger.Get(ctx, r.ID); {
	case !errors.Is(err, runs.ErrNotFound): // it was begun before
	case at.apart() > clocksApart:
		err = &ClocksError{Sweep: r.ID, Own: at.own, Redis: at.redis}
	case o.Organization != "":
		err = nil
	default:
		err = i.claim(ctx, store, r, o, at)
	}
	if err != nil {
		return runs.Run{}, false, err
	}
	return i.BeginSweep(ctx, r, o)
}

// claim writes down that the tenant is about to be swept by hand, so that the schedule
// knows.
func (i Intake) claim(ctx context.Context, store *watch.Store, r Run, o sweep.Order, at clocks) error {
	const attempts = 20 // others write at ticks alone
	for range attempts {
		ticks, err := store.Ticks(ctx)
		if err != nil {
			return err
		}
		if ticks.ByHand.Run == r.ID && isClaimed(ticks.ByHand, at) {
			return nil // who claimed it was cut off
		}
		under, err := i.underWay(ctx, store, ticks, at)
		if err != nil {
			return err
		}
		if under != nil {
			return under
		}
		ticks.ByHand = watch.Sweep{Run: r.ID, Tick: o.Tick, At: at.redis, Pending: o.Pending}
		if ok, err := store.SetTicks(ctx, &ticks); ok || err != nil {
			return err
		}
	}
	return fmt.Errorf("sweep %s: others keep changing the tenant's sweeps: try again", r.ID)
}

const (
	// claimedFor is how long a sweep that somebody is about to begin counts as one that
	// is under way although its run is not there.
	claimedFor = time.Minute
	// judgedWithin is how long after its end a sweep that was not judged counts as one
	// that is under way. The judging of the next one decides on all domains anyway.
	judgedWithin = time.Hour
)

// isClaimed says of a sweep whose run is not there whether somebody is about to begin it.
func isClaimed(s watch.Sweep, at clocks) bool {
	return !s.Begun && at.redis.Sub(s.At).Abs() < claimedFor
}

// underWay says which sweep of the whole tenant is under way; nil: none is.
func (i Intake) underWay(ctx context.Context, store *watch.Store, ticks watch.Ticks, at clocks) (*SweepingError, error) {
	for _, s := range []watch.Sweep{ticks.Sweep, ticks.ByHand} {
		if s.Run == "" {
			continue
		}
		why, err := i.holding(ctx, store, s, at)
		if err != nil {
			return nil, err
		}
		if why != "" {
			return &SweepingError{Run: s.Run, Why: why}, nil
		}
	}
	return nil, nil
}

// holding says why the sweep holds up another one; empty: it does not.
func (i Intake) holding(ctx context.Context, store *watch.Store, s watch.Sweep, at clocks) (string, error) {
	run, err := i.Ledger.Get(ctx, s.Run)
	switch {
	case errors.Is(err, runs.ErrNotFound) && isClaimed(s, at):
		return "is about to start", nil
	case errors.Is(err, runs.ErrNotFound):
		return "", nil
	case err != nil:
		return "", err
	case !run.CancelledAt.IsZero():
		return "", nil
	case run.Incomplete && !run.Ended():
		return fmt.Sprintf("is incomplete, since Redis has lost rows of it (enqueue runs cancel %s)", s.Run), nil
	case run.Paused && !run.Ended(): // its last looks may settle all of it behind the pause
		return fmt.Sprintf("is paused (enqueue runs resume %s, or cancel)", s.Run), nil
	case !run.Ended():
		return fmt.Sprintf("still runs, with %d of %d rows settled", run.Settled, run.Rows()), nil
	case at.redis.Sub(run.EndedAt) >= judgedWithin:
		return "", nil
	}
	judged, err := wasJudged(ctx, store, s, at)
	if err != nil || judged {
		return "", err
	}
	return "has ended and is not evaluated yet", nil
}

// wasJudged says whether the sweep was judged, or one after it: one of a tick that
// cannot have come yet is after nothing, clocks were wrong then.
func wasJudged(ctx context.Context, store *watch.Store, s watch.Sweep, at clocks) (bool, error) {
	value, err := store.State(ctx, sweep.SummaryState)
	if err != nil || value == nil {
		return false, err
	}
	var last sweep.Summary
	if err := json.Unmarshal(value, &last); err != nil {
		return false, fmt.Errorf("which sweep was evaluated last: %w", err)
	}
	ahead := last.Tick > at.later().Add(decidedAhead).Unix()
	return last.Run == s.Run || last.Tick >= s.Tick && !ahead, nil
}
