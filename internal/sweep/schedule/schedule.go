package schedule

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"orgops/internal/intake"
	"orgops/internal/ledger"
	"orgops/internal/scan/progress"
	"orgops/internal/stamp"
	"orgops/internal/sweep"
)

// Scheduler starts the sweeps of a tenant's schedule. Any number of schedulers may run for
// a tenant: the one that replaces the stored ticks decides on a tick. It stores everything
// that the start of the sweep needs together with its decision, or skips the tick. A
// scheduler that finds a sweep which was not started starts it: the worker that decided may
// have been killed in between. To start a sweep twice changes nothing.
// The methods of a Scheduler are for one goroutine.
type Scheduler struct {
	Intake  intake.Intake // creates the runs
	Store   *sweep.Store  // the tenant's
	Tenant  string
	Cron    sweep.Cron
	Pending bool // sweeps check pending domains too
	Logger  *slog.Logger
	// Ticked is called once in the fleet for each tick, with [TickStarted] or [TickSkipped].
	// nil: not called.
	Ticked func(outcome string)
	// Every is the time between two checks for a tick; 0: two seconds.
	Every time.Duration

	// quietTick is a tick for which nothing is left to do, as read at quietAt.
	quietTick int64
	quietAt   time.Time
}

const (
	scheduleEvery = 2 * time.Second
	// quietFor is how long the ticks that were read count between two ticks: a worker may
	// have hundreds of tenants.
	quietFor = time.Minute
	// maxAhead is how far a stored tick may be ahead of Redis' clock. Beyond that the clock was wrong
	// when it was stored, and is not now.
	maxAhead = time.Hour
	// maxSpread bounds the time over which the checks of a sweep are spread.
	maxSpread = 7 * 24 * time.Hour
)

// Outcomes of ticks, as they are counted.
const (
	TickStarted = "started"
	TickSkipped = "skipped"
)

// Run checks for ticks until ctx ends.
func (s *Scheduler) Run(ctx context.Context) {
	tick := time.NewTicker(cmp.Or(s.Every, scheduleEvery))
	defer tick.Stop()
	for failed := false; ; {
		err := s.Once(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil && !failed { // the log has the first of several failures
			s.Logger.WarnContext(ctx, "sweep scheduler failed", "error", err)
		}
		failed = err != nil
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Once decides on a tick that has come and starts its sweep, or starts one that was decided
// on and not started.
func (s *Scheduler) Once(ctx context.Context) error {
	own := ownTime(s.Intake)
	if s.latest(own) == s.quietTick && own.Sub(s.quietAt).Abs() < quietFor {
		return nil
	}
	now, err := s.Store.Clock(ctx)
	if err != nil {
		return err
	}
	ticks, err := s.Store.Ticks(ctx)
	if err != nil {
		return err
	}
	tick := s.latest(now)
	switch {
	case tick == 0:
	case ticks.Tick == 0:
		return s.first(ctx, ticks, tick)
	case ticks.Tick > now.Add(maxAhead).Unix():
		s.Logger.ErrorContext(ctx, "sweep started early because Redis' clock was wrong: the schedule continues from now",
			"tick", tickText(ticks.Tick), "now", now)
		return s.first(ctx, ticks, tick)
	case tick > ticks.Tick:
		return s.decide(ctx, ticks, tick, now)
	case ticks.Sweep.Run != "" && !ticks.Sweep.Started:
		return s.start(ctx, ticks)
	}
	s.quietTick = tick
	s.quietAt = own
	return nil
}

// ownTime returns the time of this machine.
func ownTime(in intake.Intake) time.Time {
	if in.Now != nil {
		return in.Now()
	}
	return time.Now()
}

// latest returns the last tick that is not after at; 0: there is none.
func (s *Scheduler) latest(at time.Time) int64 {
	tick, ok := s.Cron.Latest(at)
	if !ok {
		return 0
	}
	return tick.Unix()
}

// first stores where the schedule begins: no earlier tick was missed.
func (s *Scheduler) first(ctx context.Context, ticks sweep.Ticks, tick int64) error {
	ticks.Tick = tick
	if won, err := s.Store.SetTicks(ctx, &ticks); !won || err != nil {
		return err
	}
	s.Logger.InfoContext(ctx, "sweep schedule started", "cron", s.Cron.String(), "next", s.Cron.Next(time.Unix(tick, 0)))
	return nil
}

// decide decides on a tick that has come: the newest, if several were missed.
func (s *Scheduler) decide(ctx context.Context, ticks sweep.Ticks, tick int64, now time.Time) error {
	other, err := inProgress(ctx, s.Intake, ledger.Tenant(s.Tenant), ticks, now)
	if err != nil {
		return err
	}
	if other != nil {
		return s.skip(ctx, ticks, tick, other)
	}
	ticks.Tick = tick
	ticks.Sweep = sweep.TenantSweep{Run: sweepID(s.Tenant, tick), Tick: tick, At: now,
		SpreadUntil: s.spreadUntil(tick), Pending: s.Pending}
	if won, err := s.Store.SetTicks(ctx, &ticks); !won || err != nil {
		return err
	}
	return s.start(ctx, ticks)
}

// sweepID returns the id of the run of the tenant's sweep of a tick.
func sweepID(tenant string, tick int64) string { return fmt.Sprintf("sweep-%s-%d", tenant, tick) }

// spreadUntil returns until when the checks of a tick's sweep are spread. A fifth of the
// time to the next tick is left for domains that are found late.
func (s *Scheduler) spreadUntil(tick int64) int64 {
	at := time.Unix(tick, 0)
	next := s.Cron.Next(at)
	if next.IsZero() {
		return at.Add(maxSpread).Unix()
	}
	return at.Add(min(next.Sub(at)*4/5, maxSpread)).Unix()
}

// skip decides that the sweep of a tick is not started, since another one is in progress.
func (s *Scheduler) skip(ctx context.Context, ticks sweep.Ticks, tick int64, other *InProgressError) error {
	inRow := 1
	if ticks.Skipped.Tick == ticks.Tick {
		inRow += ticks.Skipped.InRow
	}
	ticks.Tick = tick
	ticks.Skipped = sweep.SkippedTick{Tick: tick, Why: fmt.Sprintf("sweep %s %s", other.Run, other.Why), InRow: inRow}
	if won, err := s.Store.SetTicks(ctx, &ticks); !won || err != nil {
		return err
	}
	s.Logger.WarnContext(ctx, "sweep skipped", "tick", tickText(tick), "run", other.Run, "reason",
		ticks.Skipped.Why, "in_row", inRow)
	s.ticked(TickSkipped)
	return nil
}

// start starts the sweep that was decided on, and stores that.
func (s *Scheduler) start(ctx context.Context, ticks sweep.Ticks) error {
	decided := ticks.Sweep
	tick := tickText(ticks.Sweep.Tick)
	order := progress.Scan{Tick: decided.Tick, SpreadUntil: decided.SpreadUntil, Pending: decided.Pending}
	_, _, err := s.Intake.BeginSweep(ctx, ledger.NewRun{ID: ledger.RunID(decided.Run), Tenant: ledger.Tenant(s.Tenant),
		Description: ledger.Description{Label: "scheduled for " + tick}}, order)
	if err != nil {
		return fmt.Errorf("start the sweep of %s: %w", tick, err)
	}
	ticks.Sweep.Started = true
	if won, err := s.Store.SetTicks(ctx, &ticks); !won || err != nil {
		return err
	}
	s.Logger.InfoContext(ctx, "sweep started", "run", decided.Run, "tick", tick, "next",
		s.Cron.Next(time.Unix(decided.Tick, 0)))
	s.ticked(TickStarted)
	return nil
}

func (s *Scheduler) ticked(outcome string) {
	if s.Ticked != nil {
		s.Ticked(outcome)
	}
}

// tickText returns a tick as text, for people.
func tickText(tick int64) string { return stamp.UTC(time.Unix(tick, 0)) }
