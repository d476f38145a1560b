package schedule_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"orgops/internal/intake"
	"orgops/internal/ledger"
	"orgops/internal/ledgertest"
	"orgops/internal/redistest"
	"orgops/internal/scan/progress"
	"orgops/internal/sweep"
	"orgops/internal/sweep/schedule"
)

// mortal is a connection of a worker that is killed before or after a command.
type mortal struct {
	left  int // commands until it dies; below 0: it does not die
	after bool
	dead  bool
}

var errDead = errors.New("killed")

func (h *mortal) hook() redistest.Around {
	return func(_ context.Context, run func() error, _ ...redis.Cmder) error {
		if h.dead {
			return errDead
		}
		if h.left--; h.left != 0 {
			return run()
		}
		h.dead = true
		if h.after {
			return errors.Join(run(), errDead)
		}
		return errDead
	}
}

// fleet has the schedules of a tenant's workers, each with a clock of its own, in virtual
// time, which is that of an embedded Redis.
type fleet struct {
	*swept
	start time.Time // a whole minute
	at    time.Time
	log   bytes.Buffer
	count map[string]int
}

func newFleet(t *testing.T) *fleet {
	redistest.Mini(t) // its clock can be set
	f := &fleet{swept: newSwept(t), count: map[string]int{}}
	now, err := f.store.Clock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	f.start = now.Truncate(24 * time.Hour).Add(-24 * time.Hour)
	f.set(f.start)
	return f
}

// set sets the time.
func (f *fleet) set(at time.Time) {
	f.at = at
	redistest.Mini(f.t).SetTime(at)
	f.taker.Now = func() time.Time { return f.at }
}

// worker returns a scheduler whose clock is off by that much.
func (f *fleet) worker(cron string, off time.Duration, hooks ...redis.Hook) *schedule.Scheduler {
	f.t.Helper()
	c, err := sweep.ParseCron(cron)
	if err != nil {
		f.t.Fatal(err)
	}
	rdb := redistest.New(f.t)
	for _, h := range hooks {
		rdb.AddHook(h)
	}
	i := intake.New(rdb, ledger.New(rdb))
	i.Now = func() time.Time { return f.at.Add(off) }
	return &schedule.Scheduler{
		Intake: i, Store: sweep.NewStore(rdb, "default"), Tenant: "default", Cron: c,
		Logger: slog.New(slog.NewTextHandler(&f.log, nil)), Ticked: func(what string) { f.count[what]++ },
	}
}

func (f *fleet) once(workers ...*schedule.Scheduler) {
	f.t.Helper()
	for _, w := range workers {
		if err := w.Once(f.t.Context()); err != nil {
			f.t.Fatal(err)
		}
	}
}

// until advances the time in steps, and runs every worker at each.
func (f *fleet) until(end time.Time, step time.Duration, each func(), workers ...*schedule.Scheduler) {
	f.t.Helper()
	for at := f.at.Add(step); !at.After(end); at = at.Add(step) {
		f.set(at)
		f.once(workers...)
		if each != nil {
			each()
		}
	}
}

// sweeps returns the runs, the oldest first.
func (f *fleet) sweeps() (ids []string) {
	f.t.Helper()
	all, err := f.ledger.Runs(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	for _, r := range all {
		ids = append(ids, string(r.ID))
	}
	slices.Sort(ids) // they name ticks of one length
	return ids
}

// endAll ends the running sweeps.
func (f *fleet) endAll() {
	f.t.Helper()
	all, err := f.ledger.Runs(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	for _, r := range all {
		if !r.Ended() {
			f.end(string(r.ID))
		}
	}
}

func (f *fleet) ticks() sweep.Ticks {
	f.t.Helper()
	ticks, err := f.store.Ticks(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	return ticks
}

// wantSweeps checks that the sweeps are those of these minutes after the start.
func (f *fleet) wantSweeps(minutes ...int) {
	f.t.Helper()
	var ids []string
	for _, m := range minutes {
		ids = append(ids, f.id(m))
	}
	if diff := cmp.Diff(ids, f.sweeps()); diff != "" {
		f.t.Errorf("sweeps (-want +got):\n%s", diff)
	}
}

// id returns the ID of the sweep of a minute after the start.
func (f *fleet) id(minute int) string {
	return fmt.Sprintf("sweep-default-%d", f.start.Add(time.Duration(minute)*time.Minute).Unix())
}

func (f *fleet) wantCount(begun, skipped int) {
	f.t.Helper()
	want := map[string]int{}
	for what, n := range map[string]int{schedule.TickStarted: begun, schedule.TickSkipped: skipped} {
		if n > 0 {
			want[what] = n
		}
	}
	if !maps.Equal(f.count, want) {
		f.t.Errorf("told %v, want %v", f.count, want)
	}
}

func (f *fleet) wantLog(words string) {
	f.t.Helper()
	if !strings.Contains(f.log.String(), words) {
		f.t.Errorf("want %q in the log:\n%s", words, &f.log)
	}
}

// TestEachTickOnce has three workers whose clocks differ by 30 s process a hundred ticks, or
// some of them, in changing order. Their times repeat every seven ticks.
func TestEachTickOnce(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	workers := []*schedule.Scheduler{f.worker("* * * * *", -30*time.Second), f.worker("* * * * *", 0),
		f.worker("* * * * *", 30*time.Second)}
	f.once(workers...)
	ticks := redistest.Amount(23, 100) // both end before a worker has the next tick
	f.until(f.start.Add(time.Duration(ticks)*time.Minute+31*time.Second), 7*time.Second, func() {
		f.endAll()
		workers = append(workers[1:], workers[0])
	}, workers...)
	var minutes []int
	for m := 1; m <= ticks; m++ {
		minutes = append(minutes, m)
	}
	f.wantSweeps(minutes...)
	f.wantCount(ticks, 0)
}

// TestTickOfManyAtOnce checks that of concurrent workers only one starts the sweep.
func TestTickOfManyAtOnce(t *testing.T) {
	f := newFleet(t)
	var workers []*schedule.Scheduler
	for range 8 {
		w := f.worker("* * * * *", 0)
		w.Ticked, w.Logger = nil, slog.New(slog.DiscardHandler)
		workers = append(workers, w)
	}
	f.once(workers...)
	for minute := 1; minute <= 10; minute++ {
		f.set(f.start.Add(time.Duration(minute) * time.Minute))
		var all sync.WaitGroup
		for _, w := range workers {
			all.Go(func() {
				if err := w.Once(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		f.endAll()
	}
	f.wantSweeps(1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
}

// TestWorkerKilledAtEachStep kills a worker before and after each command to Redis
// that it sends at a tick, or each third. Another one does the rest.
func TestWorkerKilledAtEachStep(t *testing.T) {
	t.Parallel()
	redistest.Mini(t)
	for _, after := range []bool{false, true} {
		for step := 1; ; step += redistest.Stride(3) {
			survived := false
			t.Run(fmt.Sprintf("step %d, after %v", step, after), func(t *testing.T) {
				f := newFleet(t)
				other := f.worker("* * * * *", 0)
				f.once(other)
				death := &mortal{left: step, after: after}
				victim := f.worker("* * * * *", 0, death.hook())
				f.set(f.start.Add(time.Minute))
				err := victim.Once(t.Context())
				survived = !death.dead
				if survived && err != nil {
					t.Fatalf("%v", err)
				}
				f.set(f.at.Add(2 * time.Second))
				f.once(other)
				f.wantSweeps(1)
				f.endAll()
				f.until(f.start.Add(2*time.Minute+10*time.Second), 10*time.Second, nil, other)
				f.wantSweeps(1, 2)
			})
			if survived {
				if step < 6 {
					t.Errorf("it was killed at %d steps only", step-1)
				}
				break
			}
		}
	}
}

// TestFirstTickIsNotMadeUp checks that a new schedule has no missed tick, also if a tenant is
// renamed.
func TestFirstTickIsNotMadeUp(t *testing.T) {
	f := newFleet(t)
	f.set(f.start.Add(30 * time.Second))
	f.once(f.worker("* * * * *", 0))
	f.wantSweeps()
	f.until(f.start.Add(time.Minute), 30*time.Second, f.endAll, f.worker("* * * * *", 0))
	f.wantSweeps(1)
	renamed := f.worker("* * * * *", 0)
	renamed.Tenant, renamed.Store = "renamed", sweep.NewStore(redistest.New(t), "renamed")
	f.once(renamed)
	f.wantSweeps(1)
	f.wantCount(1, 0)
}

// TestNewestMissedTick checks that of the ticks missed without a worker only the newest is
// caught up on.
func TestNewestMissedTick(t *testing.T) {
	f := newFleet(t)
	worker := f.worker("* * * * *", 0)
	f.once(worker)
	f.set(f.start.Add(5*time.Minute + 40*time.Second))
	f.once(worker, f.worker("* * * * *", 0))
	f.wantSweeps(5)
	f.endAll()
	f.until(f.start.Add(6*time.Minute), 20*time.Second, nil, worker)
	f.wantSweeps(5, 6)
}

// TestTickWhileTheLastRuns checks that a tick during a sweep is skipped and logged, and not
// caught up on. So is each tick while the sweep is paused. A cancelled sweep does not block the
// next tick.
func TestTickWhileTheLastRuns(t *testing.T) {
	f := newFleet(t)
	worker := f.worker("* * * * *", 0)
	f.once(worker)
	to := func(minute int, each func()) {
		t.Helper()
		f.until(f.start.Add(time.Duration(minute)*time.Minute), 10*time.Second, each, worker)
	}
	to(1, nil)
	to(2, nil)
	f.wantCount(1, 1)
	f.wantLog("still runs, with 0 of 0 rows settled")
	if s := f.ticks().Skipped; s.Tick != f.start.Add(2*time.Minute).Unix() || s.InRow != 1 ||
		!strings.Contains(s.Why, f.id(1)+" still runs") {
		t.Errorf("skipped: %+v", s)
	}
	f.end(f.id(1))
	to(4, nil)
	f.wantSweeps(1, 3)
	f.wantCount(2, 2)
	if err := ledgertest.Control(t.Context(), f.ledger, (*ledger.Ledger).Pause, ledger.RunID(f.id(3))); err != nil {
		t.Fatal(err)
	}
	to(7, nil)
	f.wantCount(2, 5)
	if s := f.ticks().Skipped; s.InRow != 4 || !strings.Contains(s.Why, "is paused (enqueue runs resume "+f.id(3)) {
		t.Errorf("skipped: %+v", s)
	}
	if err := f.ledger.Cancel(t.Context(), "default", ledger.RunID(f.id(3))); err != nil {
		t.Fatal(err)
	}
	to(8, nil)
	f.wantSweeps(1, 3, 8)
	if s := f.ticks().Skipped; s.InRow != 4 || s.Tick != f.start.Add(7*time.Minute).Unix() {
		t.Errorf("skipped: %+v, want what was skipped last", s)
	}
}

// TestWithoutASchedule checks that no sweep starts for a tenant that is swept by hand
// alone.
func TestWithoutASchedule(t *testing.T) {
	f := newFleet(t)
	redistest.Mini(t)
	worker := f.worker("* * * * *", 0)
	worker.Cron = sweep.Cron{}
	f.once(worker)
	f.mustNow("by-hand", progress.Scan{})
	f.end("by-hand")
	f.until(f.start.Add(5*time.Minute), 20*time.Second, nil, worker)
	f.wantCount(0, 0)
	if ticks := f.ticks(); ticks.Tick != 0 {
		t.Errorf("a schedule has begun: %+v", ticks)
	}
}

// TestTickWhileSweptByHand checks that a sweep of the whole tenant by hand blocks a tick, and
// that one of an organization does not.
func TestTickWhileSweptByHand(t *testing.T) {
	f := newFleet(t)
	worker := f.worker("* * * * *", 0)
	f.once(worker)
	f.mustNow("narrow", progress.Scan{Organization: "org_1"})
	f.mustNow("by-hand", progress.Scan{})
	f.until(f.start.Add(time.Minute), 20*time.Second, nil, worker)
	f.wantCount(0, 1)
	f.wantLog("sweep by-hand still runs")
	f.end("by-hand")
	f.until(f.start.Add(2*time.Minute), 20*time.Second, nil, worker)
	f.wantCount(1, 1)
	if _, _, err := f.now("again", progress.Scan{}); err == nil || !strings.Contains(err.Error(), f.id(2)) {
		t.Errorf("%v, want the schedule's sweep in its way", err)
	}
}

// TestScheduleAfterTheFuture checks that the schedule does not wait for a year if Redis' clock
// was a year ahead and is right again.
func TestScheduleAfterTheFuture(t *testing.T) {
	f := newFleet(t)
	redistest.Mini(t)
	worker := f.worker("* * * * *", 0)
	f.once(worker)
	f.set(f.start.Add(366 * 24 * time.Hour))
	f.once(worker)
	f.wantCount(1, 0)
	f.endAll()
	f.set(f.start.Add(time.Minute))
	f.until(f.start.Add(3*time.Minute), 20*time.Second, f.endAll, worker)
	f.wantCount(3, 0)
	f.wantLog("because Redis' clock was wrong")
}

// TestCronTextChanged checks that a tick of the new expression since the last sweep is caught
// up on once, and that no tick starts twice.
func TestCronTextChanged(t *testing.T) {
	f := newFleet(t)
	daily := f.worker("0 3 * * *", 0)
	f.once(daily)
	const three, five, day = 3 * 60, 5 * 60, 24 * 60
	f.until(f.start.Add(4*time.Hour), 10*time.Minute, f.endAll, daily)
	f.wantSweeps(three)
	f.once(f.worker("0 2 * * *", 0)) // was due before
	f.wantSweeps(three)
	f.until(f.start.Add(6*time.Hour), 10*time.Minute, f.endAll, daily)
	f.once(f.worker("0 5 * * *", 0)) // an hour ago
	f.wantSweeps(three, five)
	f.endAll()
	f.once(daily)
	f.wantSweeps(three, five)
	f.until(f.start.Add(27*time.Hour), 10*time.Minute, f.endAll, daily)
	f.wantSweeps(three, five, day+three)
}

// TestSpread checks that the checks of a sweep are spread over four fifths of the time to the
// next tick, and over a week at most. A tick that is caught up on is spread no further.
func TestSpread(t *testing.T) {
	for cron, want := range map[string]time.Duration{
		"0 3 * * *": 24 * time.Hour * 4 / 5, "* * * * *": 48 * time.Second, "@yearly": 7 * 24 * time.Hour,
	} {
		t.Run(cron, func(t *testing.T) {
			f := newFleet(t)
			worker := f.worker(cron, 0)
			tick, _ := worker.Cron.Latest(f.start)
			ticks := f.ticks()
			ticks.Tick = tick.Add(-time.Minute).Unix()
			if ok, err := f.store.SetTicks(t.Context(), &ticks); err != nil || !ok {
				t.Fatal(ok, err)
			}
			f.set(f.start.Add(30 * time.Second))
			f.once(worker)
			sweep := f.ticks().Sweep
			if got := time.Duration(sweep.SpreadUntil-sweep.Tick) * time.Second; got != want || sweep.Tick != tick.Unix() {
				t.Errorf("tick %d is spread over %v, want %v", sweep.Tick, got, want)
			}
		})
	}
}

// TestScheduleWithoutRedis checks that an outage of Redis is logged once, and that scheduling
// resumes when Redis is back.
func TestScheduleWithoutRedis(t *testing.T) {
	f := newFleet(t)
	f.once(f.worker("* * * * *", 0))
	away := &mortal{left: 1}
	worker := f.worker("* * * * *", 0, away.hook())
	ctx, cancel := context.WithCancel(t.Context())
	looked := 0
	worker.Every = time.Nanosecond
	worker.Intake.Now = func() time.Time {
		if looked++; looked == 50 {
			away.dead = false
			away.left = -1
		}
		if looked > 50 && len(f.count) > 0 || looked > 100_000 {
			cancel()
		}
		return f.at.Add(time.Duration(looked) * time.Second)
	}
	f.set(f.start.Add(time.Hour))
	worker.Run(ctx)
	f.wantCount(1, 0)
	if told := strings.Count(f.log.String(), "sweep scheduler failed"); told != 1 {
		t.Errorf("told %d times:\n%s", told, &f.log)
	}
}
