package pace_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"orgops/internal/pace"
	"orgops/internal/redistest"
)

const op = "update_discovery_domain"

// fleet is a Redis with the clock of a synctest bubble and any number of processes: time
// passes at once, and exactly.
type fleet struct {
	t     *testing.T
	redis *miniredis.Miniredis
	limit pace.Limit
}

func newFleet(t *testing.T, limit pace.Limit) *fleet {
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true)
	t.Cleanup(m.Close)
	return &fleet{t: t, redis: m, limit: limit}
}

func (f *fleet) client() redis.UniversalClient {
	c := redis.NewClient(&redis.Options{
		Dialer:                   func(context.Context, string, string) (net.Conn, error) { return f.redis.Dial() },
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		MaxRetries:               -1,
	})
	f.t.Cleanup(func() { _ = c.Close() })
	return c
}

// process returns a limiter with a connection pool of its own.
func (f *fleet) process(change ...func(*pace.Config)) *pace.Limiter {
	c := pace.Config{Redis: f.client(), Tenant: "acme", Limit: f.limit}
	for _, ch := range change {
		ch(&c)
	}
	return pace.New(c)
}

func perSecond(n float64, burst int) pace.Limit {
	return pace.Limit{Rate: pace.Rate{Count: n, Per: time.Second}, Burst: burst}
}

// seconds returns how long a test lasts, in virtual time: usually and with long tests.
func seconds(usual, all int) time.Duration {
	return time.Duration(redistest.Amount(usual, all)) * time.Second
}

// permit waits for a permit of a request that is answered at once, by an answer that says nothing
// of limits and blocks.
func permit(ctx context.Context, l *pace.Limiter, operation string) error {
	return grant(ctx, l, pace.Request{Operation: operation})
}

// grant is permit for a request with its class.
func grant(ctx context.Context, l *pace.Limiter, r pace.Request) error {
	err := l.Wait(ctx, r)
	if err == nil {
		l.Answered(ctx, r.Operation, http.StatusInternalServerError, nil, 0)
	}
	return err
}

func wait(t *testing.T, l *pace.Limiter, operation string) {
	t.Helper()
	if err := permit(t.Context(), l, operation); err != nil {
		t.Fatal(err)
	}
}

// bubble runs a subtest in a synctest bubble.
func bubble(t *testing.T, name string, test func(t *testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

func TestManyProcessesShareOneBudget(t *testing.T) {
	tests := []struct {
		name      string
		limit     pace.Limit
		processes int
		length    time.Duration
	}{
		{"the default", perSecond(2, 2), 2, seconds(60, 120)},
		{"enterprise, with a reserve", pace.Limit{Rate: pace.Rate{Count: 16, Per: time.Second}, Burst: 50, Reserve: 0.2}, 5,
			seconds(40, 60)}, // in a few permits the shares differ by chance
		{"by the minute", pace.Limit{Rate: pace.Rate{Count: 150, Per: time.Minute}, Burst: 10}, 3, seconds(60, 120)},
		{"no burst", perSecond(50, 1), 4, seconds(3, 10)},
		{"fast", perSecond(250, 50), 4, time.Duration(redistest.Amount(2500, 3000)) * time.Millisecond},
		{"one process alone", perSecond(16, 1), 1, seconds(10, 30)},
	}
	for _, tt := range tests {
		bubble(t, tt.name, func(t *testing.T) {
			f := newFleet(t, tt.limit)
			length := tt.length
			ctx, cancel := context.WithTimeout(t.Context(), length)
			defer cancel()
			var mu sync.Mutex
			var given []time.Time
			byProcess := make([]int, tt.processes)
			var wg sync.WaitGroup
			for p := range tt.processes {
				l := f.process()
				for range 8 {
					wg.Go(func() {
						for {
							err := permit(ctx, l, op)
							if errors.Is(err, context.DeadlineExceeded) {
								return
							}
							if err != nil {
								if _, ok := errors.AsType[*pace.NoPermitError](err); !ok {
									t.Error(err)
									return
								}
								continue
							}
							mu.Lock()
							given = append(given, time.Now())
							byProcess[p]++
							mu.Unlock()
						}
					})
				}
			}
			wg.Wait()

			rate, burst := tt.limit.Effective()
			perSecond := rate.PerSecond()
			for i, from := range given {
				for j, to := range given[i:] {
					if most := to.Sub(from).Seconds()*perSecond + float64(burst) + 1e-6; float64(j+1) > most {
						t.Fatalf("%d permits within %v, want at most %v", j+1, to.Sub(from), most)
					}
				}
			}
			// Exclude the first burst, which is granted at once: it must not hide permits
			// lost later.
			if later, most := float64(len(given)-burst), perSecond*length.Seconds(); later < 0.97*most {
				t.Errorf("%v permits in %v after the first burst, want at least 97 %% of %v", later, length, most)
			}
			for p, n := range byProcess {
				if n < len(given)/tt.processes/2 {
					t.Errorf("process %d had %d permits of %d: not its share", p, n, len(given))
				}
			}
		})
	}
}

func TestPermitsAreGivenInOrderOfRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newFleet(t, perSecond(2, 1)).process()
		wait(t, l, op)
		var mu sync.Mutex
		var order []int
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				if err := permit(t.Context(), l, op); err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				order = append(order, i)
			})
			synctest.Wait() // i waits before i+1 arrives
		}
		wg.Wait()
		if !slices.IsSorted(order) || len(order) != 20 {
			t.Errorf("served in the order %v", order)
		}
	})
}

func TestOnlyTheFirstRequestInLineQueriesRedis(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, perSecond(2, 1))
		l := f.process()
		wait(t, l, op)
		before := f.redis.CommandCount()
		for range 100 {
			go func() { _ = permit(t.Context(), l, op) }()
		}
		synctest.Wait()
		if n := f.redis.CommandCount() - before; n > 5 { // each command in a script counts too
			t.Errorf("100 waiting goroutines sent %d commands, want those of one", n)
		}
		time.Sleep(time.Minute)
	})
}

func TestWhoGivesUpTakesNoPermit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newFleet(t, perSecond(1, 1)).process()
		wait(t, l, op)
		start := time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		errs := make(chan error, 10)
		for range 10 { // the first of them waits for Redis, the others in the line
			go func() { errs <- permit(ctx, l, op) }()
			synctest.Wait()
		}
		served := make(chan time.Duration, 1)
		go func() {
			if err := permit(t.Context(), l, op); err != nil {
				t.Error(err)
			}
			served <- time.Since(start)
		}()
		synctest.Wait()
		time.Sleep(500 * time.Millisecond)
		cancel()
		for range 10 {
			if err := <-errs; !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "wait for a permit to "+op) {
				t.Errorf("got %v, want the context's end", err)
			}
		}
		if took := <-served; took > 1100*time.Millisecond {
			t.Errorf("the one behind them was served after %v, want 1s: a permit was wasted", took)
		}
	})
}

// TestAShortPauseFillsNoBucket has a pause that is over before the tenant's own bucket, which has
// less than the API's, has a permit.
func TestAShortPauseFillsNoBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, pace.Limit{Rate: pace.Rate{Count: 2, Per: time.Minute}, Burst: 4, Reserve: 0.5})
		l := f.process(func(c *pace.Config) { c.MaxWait = time.Hour })
		wait(t, l, op)
		wait(t, l, op)
		start := time.Now()
		l.Answered(t.Context(), op, 429, nil, time.Second)
		wait(t, l, op)
		if took := time.Since(start); took < time.Minute {
			t.Errorf("a permit after %v, want it after a minute", took)
		}
	})
}

func TestA429PausesEverybody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, perSecond(10, 50))
		var log bytes.Buffer
		first := f.process(func(c *pace.Config) { c.Logger = slog.New(slog.NewJSONHandler(&log, nil)) })
		others := []*pace.Limiter{f.process(), f.process()}
		wait(t, others[0], op)
		start := time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // the request's own context may be over
		for range 5 {
			first.Answered(ctx, op, 429, nil, 5*time.Second)
		}
		first.Answered(ctx, op, 429, nil, 2*time.Second) // does not shorten it
		s, err := others[0].State(t.Context())
		if err != nil || !s.PausedUntil.Equal(start.Add(5*time.Second)) {
			t.Errorf("paused until %v, %v; want %v", s.PausedUntil, err, start.Add(5*time.Second))
		}
		if n := strings.Count(log.String(),
			`"tenant paused","tenant":"acme","operation":"update_discovery_domain","pause_seconds":5`); n != 1 {
			t.Errorf("logged %d times, want once:\n%s", n, log.String())
		}
		var mu sync.Mutex
		var given []time.Duration
		var wg sync.WaitGroup
		for _, l := range others {
			for range 20 {
				wg.Go(func() {
					if err := permit(t.Context(), l, "another_operation"); err != nil {
						t.Error(err)
					}
					mu.Lock()
					defer mu.Unlock()
					given = append(given, time.Since(start))
				})
			}
		}
		wg.Wait()
		slices.Sort(given)
		for i, at := range given {
			// No stampede: a burst of 50 was allowed before, but permits are granted one by
			// one.
			if earliest := 5*time.Second + time.Duration(i)*100*time.Millisecond; at < earliest {
				t.Errorf("permit %d after %v, want not before %v", i, at, earliest)
			}
		}
		if last := given[len(given)-1]; last > 9100*time.Millisecond {
			t.Errorf("the last permit after %v, want 8.9s", last)
		}
		if s, err := first.State(t.Context()); err != nil || !s.PausedUntil.IsZero() {
			t.Errorf("afterwards: paused until %v, %v", s.PausedUntil, err)
		}
	})
}

// TestA429OfOneOperation answers 429 to an operation: it is paused alone if the headers and the
// pace show that the tenant's budget is not used up; otherwise the tenant is.
func TestA429OfOneOperation(t *testing.T) {
	const other, third = "remove_organization_clients", "list_discovery_domains"
	bucket := func(limit, remaining int) http.Header {
		return http.Header{"X-Ratelimit-Limit": {fmt.Sprint(limit)}, "X-Ratelimit-Remaining": {fmt.Sprint(remaining)}}
	}
	type answers map[string]http.Header // of successes before, by operation
	for _, tt := range []struct {
		name   string
		limit  pace.Limit
		before answers
		header http.Header
		alone  bool
	}{
		{"the tenant's bucket has permits left", perSecond(10, 50), nil, bucket(50, 30), true},
		{"only the tenant's bucket is ever named", perSecond(10, 50), answers{op: bucket(50, 40), other: bucket(50, 39)},
			bucket(50, 30), true},
		{"the tenant's bucket is empty", perSecond(10, 50), nil, bucket(50, 0), false},
		{"a bucket of its own", perSecond(10, 50), answers{op: bucket(5, 1), other: bucket(50, 40)}, bucket(5, 0), true},
		{"a bucket of its own, before any success", perSecond(10, 50), nil, bucket(5, 0), true},
		{"a bucket of a group, and another operation names none", perSecond(10, 50),
			answers{third: bucket(5, 1), other: nil}, bucket(5, 0), true},
		{"all name the same bucket: the burst is set wrong", perSecond(10, 50),
			answers{op: bucket(5, 1), other: bucket(5, 1)}, bucket(5, 0), false},
		{"no bucket is named, as by a proxy", perSecond(10, 50), answers{other: bucket(50, 40)}, nil, true},
		{"no bucket is ever named", perSecond(10, 50), answers{op: nil, other: nil}, nil, false},
		{"the tenant's bucket was empty just now", perSecond(10, 50), answers{other: bucket(50, 0)}, bucket(5, 0), false},
		{"the smallest burst with one request", perSecond(2, 2), answers{other: bucket(2, 1)}, nil, true},
		{"no burst", perSecond(10, 1), answers{other: bucket(1, 0)}, bucket(5, 0), false},
		{"no rate, the bucket has permits left", pace.Limit{}, answers{other: bucket(50, 40)}, bucket(50, 30), true},
		{"no rate, the bucket is empty", pace.Limit{}, answers{op: bucket(50, 1), other: bucket(50, 40)}, bucket(50, 0),
			false},
		{"no rate, another operation names no bucket", pace.Limit{}, answers{other: nil}, bucket(5, 0), true},
		{"no rate, no bucket is ever named", pace.Limit{}, answers{op: nil, other: nil}, nil, false},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			f := newFleet(t, tt.limit)
			var log bytes.Buffer
			l := f.process(func(c *pace.Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
			for operation, header := range tt.before {
				l.Answered(t.Context(), operation, http.StatusOK, header, 0)
			}
			wait(t, l, op)
			time.Sleep(50 * time.Millisecond) // until the answer
			end := time.Now().Add(20 * time.Second)
			for range 3 {
				l.Answered(t.Context(), op, http.StatusTooManyRequests, tt.header, 20*time.Second)
			}
			s, err := f.process().State(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			what := "tenant paused"
			if tt.alone {
				what = "operation paused"
				want := []pace.Pause{{Operation: op, Until: end.UTC(), RefusedSince: end.Add(-20 * time.Second).UTC()}}
				if diff := cmp.Diff(want, s.Pauses); diff != "" || !s.PausedUntil.IsZero() {
					t.Errorf("the tenant is paused until %v; pauses (-want +got):\n%s", s.PausedUntil, diff)
				}
			} else if !s.PausedUntil.Equal(end) || len(s.Pauses) > 0 {
				t.Errorf("the tenant is paused until %v, operations %v; want the tenant until %v", s.PausedUntil, s.Pauses, end)
			}
			if n := strings.Count(log.String(), what); n != 1 {
				t.Errorf("%q is logged %d times, want once: %s", what, n, log.String())
			}
		})
	}
}

// TestA429WhenAnotherProcessTookTheLastPermit answers 429 to an operation with a bucket of its own.
// If another process has taken the tenant's last permit just now the tenant is paused; a second
// later the operation is.
func TestA429WhenAnotherProcessTookTheLastPermit(t *testing.T) {
	for after, ofTenant := range map[time.Duration]bool{50 * time.Millisecond: true, time.Second: false} {
		bubble(t, after.String(), func(t *testing.T) {
			f := newFleet(t, perSecond(10, 1))
			a, b := f.process(), f.process()
			wait(t, a, op)
			a.Answered(t.Context(), "other", http.StatusOK,
				http.Header{"X-Ratelimit-Limit": {"1"}, "X-Ratelimit-Remaining": {"1"}}, 0)
			time.Sleep(time.Second)
			wait(t, b, "other")
			time.Sleep(after)
			a.Answered(t.Context(), op, http.StatusTooManyRequests,
				http.Header{"X-Ratelimit-Limit": {"5"}, "X-Ratelimit-Remaining": {"0"}}, 20*time.Second)
			s, err := a.State(t.Context())
			if tenant := !s.PausedUntil.IsZero(); err != nil || tenant != ofTenant || !s.Paused() {
				t.Errorf("the tenant is paused until %v, operations %v, %v", s.PausedUntil, s.Pauses, err)
			}
		})
	}
}

// TestAPausedOperation has others go on at their rate while one is paused. Its requests are
// refused at once, without a place in the line, and no burst follows the pause.
func TestAPausedOperation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const other = "remove_organization_clients"
		f := newFleet(t, perSecond(10, 50))
		a, b := f.process(), f.process()
		wait(t, a, op)
		start := time.Now()
		a.Answered(t.Context(), op, http.StatusTooManyRequests,
			http.Header{"X-Ratelimit-Limit": {"50"}, "X-Ratelimit-Remaining": {"40"}}, 20*time.Second)
		for _, l := range []*pace.Limiter{a, b} {
			err := permit(t.Context(), l, op)
			e, ok := errors.AsType[*pace.NoPermitError](err)
			if !ok || e.After != 20*time.Second || e.Why != "the API has asked to pause "+op {
				t.Errorf("got %v, want that the operation is paused for 20s", err)
			}
			for range 10 {
				wait(t, l, other)
			}
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("20 permits of another operation took %v", took)
		}
		time.Sleep(20 * time.Second)
		start = time.Now()
		for i := range 20 {
			wait(t, b, op)
			if took, least := time.Since(start), time.Duration(i)*100*time.Millisecond; took < least {
				t.Errorf("permit %d came %v after the pause, want not before %v", i+1, took, least)
			}
		}
		if s, err := a.State(t.Context()); err != nil || len(s.Pauses) > 0 {
			t.Errorf("pauses %v, %v; want none", s.Pauses, err)
		}
	})
}

// TestHowLongA429Pauses pauses a tenant for as long as the answer asks, within a second and an
// hour. Answers with another status pause none.
func TestHowLongA429Pauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, perSecond(10, 5))
		paused := func(status int, after time.Duration) time.Time {
			t.Helper()
			l := f.process(func(c *pace.Config) { c.Tenant = fmt.Sprint(status, after) })
			l.Answered(t.Context(), op, status, nil, after)
			if ahead := l.Ahead(pace.Finish); ahead > time.Hour {
				t.Errorf("a request of this process waits %v", ahead)
			}
			s, err := l.State(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return s.PausedUntil
		}
		for after, want := range map[time.Duration]time.Duration{0: time.Second, 7 * time.Second: 7 * time.Second,
			time.Hour: time.Hour, 24 * time.Hour: time.Hour} {
			if got := time.Until(paused(http.StatusTooManyRequests, after)); got != want {
				t.Errorf("asked for %v: paused for %v, want %v", after, got, want)
			}
		}
		for _, status := range []int{0, 200, 204, 400, 401, 403, 500, 503} {
			if until := paused(status, 7*time.Second); !until.IsZero() {
				t.Errorf("status %d pauses until %v", status, until)
			}
		}
	})
}

func TestNoPermitInTime(t *testing.T) {
	asNoPermit := func(t *testing.T, err error) *pace.NoPermitError {
		t.Helper()
		e, ok := errors.AsType[*pace.NoPermitError](err)
		if !ok || e.Stopping() || e.RetryIn() != e.After {
			t.Fatalf("got %v, want a NoPermitError that is not of stopping", err)
		}
		return e
	}
	bubble(t, "a pause longer than the wait is told at once", func(t *testing.T) {
		l := newFleet(t, perSecond(10, 5)).process()
		l.Answered(t.Context(), op, 429, nil, 90*time.Second)
		start := time.Now()
		e := asNoPermit(t, permit(t.Context(), l, op))
		if e.After != 90*time.Second || time.Since(start) != 0 {
			t.Errorf("%v, after %v; want 90s at once", e, time.Since(start))
		}
		if e.Error() != "no permit for a request: the API has asked this tenant to pause: again in 1m30s" {
			t.Errorf("says %q", e)
		}
	})
	bubble(t, "a wait longer than what is left", func(t *testing.T) {
		f := newFleet(t, pace.Limit{Rate: pace.Rate{Count: 1, Per: time.Minute}})
		l := f.process(func(c *pace.Config) { c.MaxWait = 59 * time.Second })
		wait(t, l, op)
		start := time.Now()
		e := asNoPermit(t, permit(t.Context(), l, op))
		if e.After != time.Minute || time.Since(start) != 0 || !strings.Contains(e.Why, "the budget of 1/min is spent") {
			t.Errorf("%v, after %v", e, time.Since(start))
		}
		if s, err := l.State(t.Context()); err != nil || s.UsedLastMinute != 1 {
			t.Errorf("%d permits used, %v; want 1", s.UsedLastMinute, err)
		}
	})
	bubble(t, "in the line, by default after 20s", func(t *testing.T) {
		l := newFleet(t, perSecond(0.2, 1)).process()
		wait(t, l, op)
		start := time.Now()
		errs := make(chan error, 9)
		for range 9 {
			go func() { errs <- permit(t.Context(), l, op) }()
		}
		served := 0
		for range 9 {
			err := <-errs
			if err == nil {
				served++
				continue
			}
			if e := asNoPermit(t, err); e.After < time.Second || time.Since(start) > 20*time.Second {
				t.Errorf("%v, after %v", e, time.Since(start))
			}
		}
		if served < 3 || served > 4 { // after 5, 10, 15 and perhaps 20 s, each with jitter
			t.Errorf("%d were served", served)
		}
	})
}

func TestStopping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop := make(chan struct{})
		l := newFleet(t, perSecond(0.1, 1)).process(func(c *pace.Config) { c.Stopping = stop })
		wait(t, l, op)
		start := time.Now()
		errs := make(chan error, 3)
		for range 3 {
			go func() { errs <- permit(t.Context(), l, op) }()
		}
		synctest.Wait()
		time.Sleep(time.Second)
		close(stop)
		for i := range 4 {
			var err error
			if i < 3 {
				err = <-errs
			} else {
				err = permit(t.Context(), l, op) // a call after the end
			}
			e, ok := errors.AsType[*pace.NoPermitError](err)
			if !ok || !e.Stopping() || e.RetryIn() != 0 || time.Since(start) != time.Second {
				t.Errorf("got %v after %v, want the end of the process", err, time.Since(start))
			}
		}
	})
}

func TestABlockIsForTheFleetUntilAProbeSucceeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, perSecond(100, 100))
		var log bytes.Buffer
		var changes []string // of all processes
		changed := func(c *pace.Config) {
			c.Changed = func(_ context.Context, how, what string) { changes = append(changes, how+" "+what) }
		}
		a := f.process(changed, func(c *pace.Config) { c.Logger = slog.New(slog.NewJSONHandler(&log, nil)) })
		b, c := f.process(changed), f.process(changed)
		const reason = "403 insufficient_scope:\x1b expected create:vdcs_templates"
		for range 3 {
			if err := a.Block(t.Context(), op, reason, "fix it"); err != nil {
				t.Fatal(err)
			}
		}
		blocked := func(l *pace.Limiter, after time.Duration) {
			t.Helper()
			err := permit(t.Context(), l, op)
			e, ok := errors.AsType[*pace.BlockedError](err)
			if !ok || !e.Blocked() || e.Operation != op || e.Reason != strings.ReplaceAll(reason, "\x1b", `\x1b`) ||
				e.RetryIn() != after {
				t.Errorf("got %v, want it blocked for %v", err, after)
			}
		}
		blocked(a, 30*time.Second)
		blocked(b, 30*time.Second)
		wait(t, b, "another") // other operations continue

		time.Sleep(20 * time.Second)
		if err := b.Block(t.Context(), op, reason, "fix it"); err != nil { // a late answer
			t.Fatal(err)
		}
		blocked(b, 10*time.Second) // does not put the probe off
		time.Sleep(10 * time.Second)
		wait(t, b, op) // one probe
		blocked(b, 30*time.Second)
		blocked(a, 30*time.Second)
		b.Answered(t.Context(), op, 403, nil, 0)
		b.Answered(t.Context(), "another", 200, nil, 0)
		if err := b.Block(t.Context(), op, reason, "fix it"); err != nil {
			t.Fatal(err)
		}
		blocked(c, 30*time.Second)

		s, err := c.State(t.Context())
		want := []pace.Block{
			{Operation: op, Reason: strings.ReplaceAll(reason, "\x1b", `\x1b`), Fix: "fix it",
				Since: time.Now().Add(-30 * time.Second).UTC(), NextProbe: time.Now().Add(30 * time.Second).UTC()},
		}
		if diff := cmp.Diff(want, s.Blocks); diff != "" || err != nil {
			t.Errorf("%v, blocks (-want +got):\n%s", err, diff)
		}

		time.Sleep(30 * time.Second)
		wait(t, c, op)
		c.Answered(t.Context(), op, 204, nil, 0)
		wait(t, a, op)
		wait(t, b, op)
		if s, err := a.State(t.Context()); err != nil || len(s.Blocks) != 0 {
			t.Errorf("blocks left: %v, %v", s.Blocks, err)
		}
		b.Answered(t.Context(), op, 204, nil, 0) // it knows of the block too
		once := []string{"blocked " + op + ": " + strings.ReplaceAll(reason, "\x1b", `\x1b`), "unblocked " + op}
		if diff := cmp.Diff(once, changes); diff != "" {
			t.Errorf("changes (-want +got):\n%s", diff)
		}
		if n := strings.Count(log.String(), "operation blocked"); n != 1 {
			t.Errorf("logged %d times, want once:\n%s", n, log.String())
		}
	})
}

// TestBlockEndsByProof has answers to a probe end its block, or not: only those that a client
// without the scope does not get. A file of wrong ids would otherwise hold all work of the
// tenant back for hours.
func TestBlockEndsByProof(t *testing.T) {
	for status, ends := range map[int]bool{
		200: true, 201: true, 204: true, 400: true, 404: true, 409: true, 422: true,
		0: false, 302: false, 401: false, 403: false, 405: false, 407: false, 408: false, 421: false, 429: false,
		451: false, 500: false, 503: false,
	} {
		for _, blocked := range []string{op, pace.All} {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, perSecond(100, 100))
				l := f.process()
				if err := l.Block(t.Context(), blocked, "why", "fix it"); err != nil {
					t.Fatal(err)
				}
				time.Sleep(30 * time.Second)
				if err := l.Wait(t.Context(), pace.Request{Operation: op}); err != nil {
					t.Fatal(err)
				}
				l.Answered(t.Context(), op, status, nil, 0)
				if s, err := f.process().State(t.Context()); err != nil || (len(s.Blocks) == 0) != ends {
					t.Errorf("after %d: %v, %v; want an end of the block: %t", status, s.Blocks, err, ends)
				}
			})
		}
	}
}

// TestProbesBackOff counts the probes of a block that lasts a day: each of them may fetch a
// token. After the fix the operation still works again within five minutes.
func TestProbesBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, perSecond(100, 100))
		fleet := []*pace.Limiter{f.process(), f.process()}
		if err := fleet[0].Block(t.Context(), op, "why", "fix it"); err != nil {
			t.Fatal(err)
		}
		var probes []time.Duration
		for start := time.Now(); time.Since(start) < 24*time.Hour; time.Sleep(30 * time.Second) {
			l := fleet[len(probes)%2]
			if permit(t.Context(), l, op) == nil {
				probes = append(probes, time.Since(start))
				if err := l.Block(t.Context(), op, "why", "fix it"); err != nil {
					t.Fatal(err)
				}
			}
		}
		const s = time.Second
		if diff := cmp.Diff([]time.Duration{30 * s, 60 * s, 120 * s, 240 * s, 480 * s, 780 * s}, probes[:6]); diff != "" ||
			len(probes) > 300 {
			t.Errorf("%d probes in a day, want at most 300; the first (-want +got):\n%s", len(probes), diff)
		}
		if s, err := fleet[0].State(t.Context()); err != nil || len(s.Blocks) != 1 ||
			s.Blocks[0].NextProbe.Sub(s.At) > 5*time.Minute {
			t.Errorf("%v, %v; want a probe within five minutes", s.Blocks, err)
		}
	})
}

// TestBlockExpires has a block whose run ends, so that nobody probes it: no operator has to
// hear of it any more. Who needs the operation then tries it at once.
func TestBlockExpires(t *testing.T) {
	for _, blocked := range []string{op, pace.All} {
		synctest.Test(t, func(t *testing.T) {
			f := newFleet(t, perSecond(100, 100))
			var log bytes.Buffer
			l := f.process(func(c *pace.Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
			blocks := func(want int) {
				t.Helper()
				if s, err := l.State(t.Context()); err != nil || len(s.Blocks) != want {
					t.Errorf("blocks %v, %v; want %d", s.Blocks, err, want)
				}
			}
			block := func() {
				t.Helper()
				if err := l.Block(t.Context(), blocked, "why", "fix it"); err != nil {
					t.Fatal(err)
				}
			}
			block()
			for range 3 { // after 30 s, a minute and two
				time.Sleep(time.Minute)
				_ = permit(t.Context(), l, op)
			}
			blocks(1)
			time.Sleep(2 * time.Minute) // until a minute after the next probe was due
			blocks(1)
			time.Sleep(time.Second)
			blocks(0)
			wait(t, l, op)
			wait(t, f.process(), op)
			block()
			blocks(1)
			time.Sleep(30 * time.Second)
			wait(t, l, op) // the first probe of a new block
			if n := strings.Count(log.String(), "operation blocked"); n != 2 {
				t.Errorf("logged %d times, want twice:\n%s", n, log.String())
			}
		})
	}
}

// TestUnansweredRequests has an API answer no more: it gets no more requests than it allows at
// once, or in a second if that is more, from all processes together.
func TestUnansweredRequests(t *testing.T) {
	tests := []struct {
		name      string
		limit     pace.Limit
		processes int
		most      int
	}{
		{"a burst", perSecond(16, 50), 1, 50},
		{"of a fleet", perSecond(40, 40), 4, 40},
		{"with a reserve", pace.Limit{Rate: pace.Rate{Count: 16, Per: time.Second}, Burst: 50, Reserve: 0.2}, 2, 50},
		{"no burst", perSecond(20, 1), 2, 20},
		{"slow", perSecond(0.5, 1), 1, 1},
		{"more processes than permits", perSecond(2, 2), 5, 5},
	}
	for _, tt := range tests {
		bubble(t, tt.name, func(t *testing.T) {
			f := newFleet(t, tt.limit)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			permits := make(chan *pace.Limiter, 10_000)
			var wg sync.WaitGroup
			fleet := make([]*pace.Limiter, tt.processes)
			for i := range fleet {
				fleet[i] = f.process()
				wait(t, fleet[i], op) // the API has answered
			}
			for _, l := range fleet {
				for range 60 {
					wg.Go(func() {
						for ctx.Err() == nil {
							if l.Wait(ctx, pace.Request{Operation: op}) == nil {
								permits <- l
							}
						}
					})
				}
			}
			time.Sleep(45 * time.Second)
			if n := len(permits); n < tt.most-tt.processes || n > tt.most {
				t.Errorf("%d requests are open, want %d", n, tt.most)
			}
			l := <-permits
			open := len(permits)
			l.Answered(t.Context(), op, 0, nil, 0) // a timeout
			time.Sleep(2 * time.Second)
			if n := len(permits); n != open+1 {
				t.Errorf("%d requests after one was answered, want one more than %d", n, open)
			}
			wg.Wait()
		})
	}
}

// TestSlowAnswers has answers take a second: the rate of each of the API's plans is used as
// if they came at once.
func TestSlowAnswers(t *testing.T) {
	for _, limit := range []pace.Limit{
		perSecond(2, 2), {Rate: pace.Rate{Count: 150, Per: time.Minute}, Burst: 10}, perSecond(16, 50), perSecond(2, 10),
		perSecond(50, 50), perSecond(20, 1),
	} {
		limit.Reserve = 0.2 // the default
		rate, _ := limit.Effective()
		bubble(t, fmt.Sprintf("%v, burst %d", limit.Rate, limit.Burst), func(t *testing.T) {
			f, length := newFleet(t, limit), seconds(20, 60)
			ctx, cancel := context.WithTimeout(t.Context(), length)
			defer cancel()
			var permits atomic.Int64
			var wg sync.WaitGroup
			for range 2 {
				l := f.process()
				for range 30 {
					wg.Go(func() {
						for ctx.Err() == nil {
							if l.Wait(ctx, pace.Request{Operation: op}) == nil {
								permits.Add(1)
								time.Sleep(time.Second)
								l.Answered(ctx, op, http.StatusOK, nil, 0)
							}
						}
					})
				}
			}
			wg.Wait()
			if want := length.Seconds() * rate.PerSecond(); float64(permits.Load()) < 0.98*want {
				t.Errorf("%d permits in %v, want %.0f", permits.Load(), length, want)
			}
		})
	}
}

// TestAProbeMayRepeatItself checks that a probe may repeat its request with a new token, and that
// other requests wait for the next probe.
func TestAProbeMayRepeatItself(t *testing.T) {
	for _, blocked := range []string{op, pace.All} {
		bubble(t, blocked, func(t *testing.T) {
			f := newFleet(t, perSecond(100, 100))
			a, b := f.process(), f.process()
			refused := func(l *pace.Limiter, who string) {
				t.Helper()
				if _, ok := errors.AsType[*pace.BlockedError](permit(t.Context(), l, op)); !ok {
					t.Errorf("%s got a permit", who)
				}
			}
			if err := a.Block(t.Context(), blocked, "why", "fix it"); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				time.Sleep(30 * time.Second)
				wait(t, a, op)
				a.Answered(t.Context(), op, 401, nil, 0)
				refused(a, "another request")
				refused(b, "another process")
				if err := grant(t.Context(), a, pace.Request{Operation: op, Again: true}); err != nil {
					t.Errorf("the probe's repetition: %v", err)
				}
			}
			a.Answered(t.Context(), op, 200, nil, 0)
			wait(t, b, op)
			wait(t, a, op)
		})
	}
}

func TestBlockingAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, perSecond(100, 100))
		l := f.process()
		if err := l.Block(t.Context(), pace.All, "401 invalid token", "fix it"); err != nil {
			t.Fatal(err)
		}
		if err := l.Block(t.Context(), "x", "403", "fix it"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(15 * time.Second)
		if err := l.Block(t.Context(), "y", "403", "fix it"); err != nil {
			t.Fatal(err)
		}
		for operation, want := range map[string]string{
			"x": "x is blocked: 403: tried again in 15s",
			"y": "y is blocked: 403: tried again in 30s", // the longer of the two
			"z": "z is blocked: 401 invalid token: tried again in 15s",
		} {
			if err := permit(t.Context(), l, operation); err == nil || (err.Error() != want && operation != "x") {
				t.Errorf("%s: got %v, want %q", operation, err, want)
			}
		}
		time.Sleep(15 * time.Second)
		wait(t, l, "x") // probes both blocks in its way
		if err := permit(t.Context(), l, "z"); err == nil {
			t.Error("a second probe within 30s")
		}
		l.Answered(t.Context(), "x", 200, nil, 0)
		wait(t, l, "x")
		wait(t, l, "z")
		if s, err := l.State(t.Context()); err != nil || len(s.Blocks) != 1 || s.Blocks[0].Operation != "y" {
			t.Errorf("blocks %v, %v; want y's alone", s.Blocks, err)
		}
	})
}

// TestSuccessNeedsNoRoundTrip checks that a success costs a round trip only if a block is
// known.
func TestSuccessNeedsNoRoundTrip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, perSecond(100, 100))
		l := f.process()
		wait(t, l, op)
		before := f.redis.CommandCount()
		for range 10 {
			l.Answered(t.Context(), op, 200, nil, 0)
		}
		if n := f.redis.CommandCount() - before; n != 0 {
			t.Errorf("10 successes sent %d commands", n)
		}
		if err := l.Block(t.Context(), op, "why", "fix it"); err != nil {
			t.Fatal(err)
		}
		before = f.redis.CommandCount()
		for range 10 {
			l.Answered(t.Context(), op, 200, nil, 0)
		}
		if n := f.redis.CommandCount() - before; n != 1 {
			t.Errorf("10 successes after a block sent %d commands, want 1", n)
		}
		wait(t, l, op)
	})
}

func TestAPauseHoldsProbesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newFleet(t, perSecond(100, 100)).process()
		if err := l.Block(t.Context(), op, "why", "fix it"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * time.Second)
		l.Answered(t.Context(), op, 429, nil, 60*time.Second)
		if _, ok := errors.AsType[*pace.NoPermitError](permit(t.Context(), l, op)); !ok {
			t.Error("a probe went out in the pause")
		}
		time.Sleep(time.Minute)
		wait(t, l, op) // the probe was not spent by the refusal
	})
}

func TestUsedInTheLastMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newFleet(t, perSecond(100, 100)).process()
		used := func(want int64) {
			t.Helper()
			if s, err := l.State(t.Context()); err != nil || s.UsedLastMinute != want {
				t.Errorf("used %d, %v; want %d", s.UsedLastMinute, err, want)
			}
		}
		used(0)
		for i := range 12 {
			wait(t, l, op)
			wait(t, l, op)
			used(int64(2*i + 2))
			time.Sleep(5 * time.Second)
		}
		used(22) // the first two are over a minute old
		time.Sleep(5 * time.Second)
		wait(t, l, op)
		used(21)
		time.Sleep(time.Minute)
		used(0)
	})
}

// TestAvailable takes the available permits without a wait, and checks that the next one
// waits.
func TestAvailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := perSecond(10, 20)
		limit.Reserve = 0.5
		l := newFleet(t, limit).process()
		state := func() pace.State {
			t.Helper()
			s, err := l.State(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		for _, after := range []time.Duration{0, time.Second, 1300 * time.Millisecond, time.Minute} {
			time.Sleep(after)
			available, start := state().Available, time.Now()
			if after == 0 && available < 10 || after == time.Second && available != 5 {
				t.Errorf("%d permits available after %s", available, after)
			}
			for range available {
				wait(t, l, op)
			}
			if d := time.Since(start); d != 0 {
				t.Errorf("%d available permits took %s", available, d)
			}
			if n := state().Available; n != 0 {
				t.Errorf("%d permits available after all were taken", n)
			}
			wait(t, l, op)
			if time.Since(start) == 0 {
				t.Errorf("more than %d permits at once after %s", available, after)
			}
			time.Sleep(time.Minute)
			for range state().Available {
				wait(t, l, op)
			}
		}
		time.Sleep(time.Minute)
		l.Answered(t.Context(), op, 429, nil, 0)
		if n := state().Available; n != 0 {
			t.Errorf("%d permits available during a pause", n)
		}
	})
}

func TestRedisIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, perSecond(1, 1))
		var log bytes.Buffer
		l := f.process(func(c *pace.Config) { c.Logger = slog.New(slog.NewJSONHandler(&log, nil)) })
		if err := l.Block(t.Context(), op, "why", "fix it"); err != nil {
			t.Fatal(err)
		}
		f.redis.SetError("LOADING")
		if err := permit(t.Context(), l, op); err == nil || !strings.Contains(err.Error(), "ask redis for a permit to "+op) {
			t.Errorf("Wait: %v", err)
		}
		if _, err := l.State(t.Context()); err == nil || !strings.Contains(err.Error(), "budget of tenant acme") {
			t.Errorf("State: %v", err)
		}
		if err := l.Block(t.Context(), op, "why", "fix it"); err == nil || !strings.Contains(err.Error(), "block "+op) {
			t.Errorf("Block: %v", err)
		}
		l.Answered(t.Context(), op, 429, nil, 0)
		l.Answered(t.Context(), op, 200, nil, 0)
		for _, want := range []string{"storing a pause failed", "clearing a block failed"} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("%q is not logged:\n%s", want, log.String())
			}
		}
		f.redis.SetError("")
		l.Answered(t.Context(), op, 200, nil, 0) // tried again
		wait(t, l, op)
	})
}

// TestOnARealRedisToo covers all operations on a real Redis, if configured: its Lua formats
// large numbers differently than miniredis.
func TestOnARealRedisToo(t *testing.T) {
	rdb := redistest.New(t)
	l := pace.New(pace.Config{Redis: rdb, Tenant: "acme",
		Limit: pace.Limit{Rate: pace.Rate{Count: 1, Per: time.Hour}, Burst: 4}})
	before := rdb.Time(t.Context()).Val()
	for range 3 {
		wait(t, l, op)
	}
	e, ok := errors.AsType[*pace.NoPermitError](permit(t.Context(), l, op))
	if !ok || e.After > time.Hour {
		t.Errorf("a fourth permit: %v, want none within an hour", e)
	}
	if err := l.Block(t.Context(), op, "why: because", "fix it"); err != nil {
		t.Fatal(err)
	}
	b, ok := errors.AsType[*pace.BlockedError](permit(t.Context(), l, op))
	if !ok || b.Reason != "why: because" || b.After > 30*time.Second {
		t.Errorf("got %v, want it blocked", b)
	}
	l.Answered(t.Context(), op, 429, nil, 1000*time.Second)
	s, err := l.State(t.Context())
	if err != nil || s.UsedLastMinute != 3 || len(s.Blocks) != 1 || s.PausedUntil.Before(before.Add(1000*time.Second)) {
		t.Errorf("state %+v, %v", s, err)
	}
	l.Answered(t.Context(), op, 200, nil, 0)
	if s, err := l.State(t.Context()); err != nil || len(s.Blocks) != 0 {
		t.Errorf("blocks left: %+v, %v", s, err)
	}
	for field, value := range rdb.HGetAll(t.Context(), "orgops:v1:{tenant:acme}:pace").Val() {
		number, _, _ := strings.Cut(value, ":")
		if digits := len(number); strings.Trim(number, "0123456789") != "" ||
			digits != 16 && !strings.HasPrefix(field, "used:") && !strings.HasSuffix(field, "_interval") {
			t.Errorf("%s is stored as %q: want whole microseconds", field, value)
		}
	}
}

// TestUnlimited checks that without a rate requests do not wait, that few query Redis, and that
// the pauses and blocks of another process still apply, each to its own operation.
func TestUnlimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, pace.Limit{Reserve: 0.2})
		ours, other := f.process(), f.process()
		start := time.Now()
		wait(t, ours, op)
		before := f.redis.CommandCount()
		for range 1000 {
			wait(t, ours, op)
		}
		if asked := f.redis.CommandCount() - before; asked > 20 {
			t.Errorf("1,000 requests at once cost %d commands", asked)
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("1,000 permits took %v", took)
		}

		if err := other.Block(t.Context(), "create_template", "no scope", "fix it"); err != nil {
			t.Fatal(err)
		}
		var blocked *pace.BlockedError
		if err := permit(t.Context(), ours, "create_template"); !errors.As(err, &blocked) {
			t.Errorf("an operation that another process has blocked: %v", err)
		}
		wait(t, ours, op)

		if err := other.Block(t.Context(), op, "no scope", "fix it"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond)
		if err := permit(t.Context(), ours, op); !errors.As(err, &blocked) {
			t.Errorf("100 ms after another process blocked it: %v", err)
		}

		const list = "list_templates"
		wait(t, ours, list)
		ours.Answered(t.Context(), list, http.StatusTooManyRequests, nil, 7*time.Second)
		start = time.Now()
		wait(t, ours, list)
		if waited := time.Since(start); waited < 7*time.Second || waited > 7100*time.Millisecond {
			t.Errorf("after a 429 of its own it waited %v, want 7 s", waited)
		}
	})
}
