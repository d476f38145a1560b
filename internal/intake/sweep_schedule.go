package intake

// Any number of workers look at a tenant's schedule. A tick is decided on by whoever
// replaces what was known of the schedule first: either its sweep is to be begun, and
// everything that is needed for that is written down with the decision, or it is
// skipped. To begin it twice is to begin it once, so who finds a sweep that is not
// begun a while after that was decided begins it: its worker was killed in between.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"orgops/internal/runs"
	"orgops/internal/sweep"
	"orgops/internal/watch"
)

// Scheduler begins the sweeps of a tenant's schedule. Any number of them may run for
// one tenant; each is used by one goroutine.
type Scheduler struct {
	// A tick comes when the clock of Intake and Redis' have both come to it.
	Intake Intake
	Store  *watch.Store // the tenant's
	Tenant string
	// Cron says when its ticks are.
	Cron watch.Cron
	// Pending says that its sweeps look at domains that are pending, too.
	Pending bool
	Logger  *slog.Logger
	// Ticked is told of each tick once for all workers: "begun" or "skipped". nil:
	// nobody wants to know.
	Ticked func(what string)
	// Every is how often it is looked whether there is a tick; 0: two seconds.
	Every time.Duration
	// Patience is how long who has decided on a tick may take to begin its sweep until
	// others do; 0: ten seconds.
	Patience time.Duration

	// quietTick is a tick that nothing is left to do for, as it was read at quietAt.
	quietTick int64
	quietAt   time.Time
	// When it was last reported that looking for ticks fails, and that clocks are apart.
	failed, apart time.Time
}

const (
	scheduleEvery    = 2 * time.Second
	schedulePatience = 10 * time.Second
	// quietFor is for how long what was read of the schedule is taken for granted
	// between ticks: a worker may have hundreds of tenants.
	quietFor = time.Minute
	// warnEvery is how often it is told what keeps being so.
	warnEvery = time.Hour
)

// Outcomes of ticks.
const (
	TickBegun   = "begun"
	TickSkipped = "skipped"
)

// Run looks for ticks until ctx is done. What is told of a tenant whose Redis does
// not answer is told once an hour.
func (s *Scheduler) Run(ctx context.Context) {
	tick := time.NewTicker(cmp.Or(s.Every, scheduleEvery))
	defer tick.Stop()
	for {
		err := s.Once(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			s.failed = time.Time{}
		case s.again(&s.failed):
			s.Logger.WarnContext(ctx, "sweep scheduler failed", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Once does what there is to do: it decides on a tick that has come and begins its sweep, or
// starts one that was decided on and not started.
func (s *Scheduler) Once(ctx context.Context) error {
	own := s.Intake.now()
	if s.tick(own) == s.quietTick && own.Sub(s.quietAt).Abs() < quietFor {
		return nil
	}
	at, err := s.Intake.readClocks(ctx, s.Store)
	if err != nil {
		return err
	}
	ticks, err := s.Store.Ticks(ctx)
	if err != nil {
		return err
	}
	if at.apart() > clocksApart && s.again(&s.apart) {
		s.Logger.ErrorContext(ctx, "clocks of this worker and Redis differ: sweeps wait for the slower one", "own", at.own.UTC(), "redis", at.redis)
	}
	tick := s.tick(at.earlier())
	switch {
	case tick == 0:
	case ticks.Tick == 0:
		return s.first(ctx, ticks, tick)
	case ticks.Tick > at.later().Add(decidedAhead).Unix():
		s.Logger.ErrorContext(ctx, "sweep started early because clocks were wrong: the schedule continues from now", "tick", tickText(ticks.Tick), "now", at.later())
		return s.first(ctx, ticks, tick)
	case tick > ticks.Tick:
		return s.decide(ctx, ticks, tick, at)
	case ticks.Sweep.Run != "" && !ticks.Sweep.Begun:
		if at.redis.Sub(ticks.Sweep.At) < cmp.Or(s.Patience, schedulePatience) {
			return nil
		}
		return s.begin(ctx, ticks)
	}
	s.quietTick, s.quietAt = tick, own
	return nil
}

// tick is the last one that is not after at, 0 if there is none.
func (s *Scheduler) tick(at time.Time) int64 {
	tick, ok := s.Cron.Latest(at)
	if !ok {
		return 0
	}
	return tick.Unix()
}

// first writes down where the schedule begins: of what was before nothing was missed.
func (s *Scheduler) first(ctx context.Context, ticks watch.Ticks, tick int64) error {
	ticks.Tick = tick
	if won, err := s.Store.SetTicks(ctx, &ticks); !won || err != nil {
		return err
	}
	s.Logger.InfoContext(ctx, "sweep schedule started", "cron", s.Cron.String(), "next", s.Cron.Next(time.Unix(tick, 0)))
	return nil
}

// decide decides on a tick that has come: the newest, if several were missed.
func (s *Scheduler) decide(ctx context.Context, ticks watch.Ticks, tick int64, at clocks) error {
	under, err := s.Intake.underWay(ctx, s.Store, ticks, at)
	if err != nil {
		return err
	}
	if under != nil {
		return s.skip(ctx, ticks, tick, under)
	}
	never := ticks.Sweep
	ticks.Tick = tick
	ticks.Sweep = watch.Sweep{Run: sweepID(s.Tenant, tick), Tick: tick, At: at.redis, SpreadUntil: s.spreadUntil(tick), Pending: s.Pending}
	if won, err := s.Store.SetTicks(ctx, &ticks); !won || err != nil {
		return err
	}
	if never.Run != "" && !never.Begun {
		s.Logger.WarnContext(ctx, "sweep not started before the next one was due: its worker died", "run", never.Run, "tick", tickText(never.Tick))
	}
	return s.begin(ctx, ticks)
}

// sweepID is the id of the run of the tenant's sweep of that tick.
func sweepID(tenant string, tick int64) string { return fmt.Sprintf("sweep-%s-%d", tenant, tick) }

// longestSpread bounds over how long the looks of a sweep are spread.
const longestSpread = 7 * 24 * time.Hour

// spreadUntil leaves a fifth of the time to the next tick for what is found late.
func (s *Scheduler) spreadUntil(tick int64) int64 {
	at := time.Unix(tick, 0)
	next := s.Cron.Next(at)
	if next.IsZero() {
		return at.Add(longestSpread).Unix()
	}
	return at.Add(min(next.Sub(at)*4/5, longestSpread)).Unix()
}

// skip decides that the tick's sweep is not started, and reports it.
func (s *Scheduler) skip(ctx context.Context, ticks watch.Ticks, tick int64, under *SweepingError) error {
	inRow := 1
	if ticks.Skipped.Tick == ticks.Tick {
		inRow += ticks.Skipped.InRow
	}
	ticks.Tick, ticks.Skipped = tick, watch.Skip{Tick: tick, Why: fmt.Sprintf("sweep %s %s", under.Run, under.Why), InRow: inRow}
	if won, err := s.Store.SetTicks(ctx, &ticks); !won || err != nil {
		return err
	}
	s.Logger.WarnContext(ctx, "sweep skipped", "tick", tickText(tick), "run", under.Run, "reason", ticks.Skipped.Why, "in_row", inRow)
	s.ticked(TickSkipped)
	return nil
}

// begin begins the sweep that was decided on, and writes down that it is.
func (s *Scheduler) begin(ctx context.Context, ticks watch.Ticks) error {
	decided := ticks.Sweep
	order := sweep.Order{Tick: decided.Tick, SpreadUntil: decided.SpreadUntil, Pending: decided.Pending}
	run := Run{ID: decided.Run, Tenant: s.Tenant, Label: "scheduled for " + tickText(decided.Tick)}
	_, _, err := s.Intake.BeginSweep(ctx, run, order)
	taken := errors.Is(err, runs.ErrMismatch)
	if err != nil && !taken {
		return fmt.Errorf("start the sweep of %s: %w", tickText(decided.Tick), err)
	}
	if taken { // somebody has given another run its id
		ticks.Sweep, ticks.Skipped = watch.Sweep{}, watch.Skip{Tick: decided.Tick, Why: err.Error(), InRow: 1}
	}
	ticks.Sweep.Begun = !taken
	if won, err := s.Store.SetTicks(ctx, &ticks); !won || err != nil {
		return err
	}
	if taken {
		s.Logger.WarnContext(ctx, "sweep skipped", "tick", tickText(decided.Tick), "reason", ticks.Skipped.Why)
		s.ticked(TickSkipped)
		return nil
	}
	s.Logger.InfoContext(ctx, "sweep started", "run", decided.Run, "tick", tickText(decided.Tick), "next", s.Cron.Next(time.Unix(decided.Tick, 0)))
	s.ticked(TickBegun)
	return nil
}

func (s *Scheduler) ticked(what string) {
	if s.Ticked != nil {
		s.Ticked(what)
	}
}

// again reports whether a state that was last reported at last is to be reported again.
func (s *Scheduler) again(last *time.Time) bool {
	now := s.Intake.now()
	if !last.IsZero() && now.Sub(*last).Abs() < warnEvery {
		return false
	}
	*last = now
	return true
}

// tickText returns a tick as text, for people.
func tickText(tick int64) string { return time.Unix(tick, 0).UTC().Format(time.RFC3339) }
