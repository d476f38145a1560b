package status

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/internal/engine"
	"orgops/internal/intake"
	"orgops/internal/ledger"
	"orgops/internal/pace"
	"orgops/internal/redisconn"
	"orgops/internal/runs"
	"orgops/internal/tenant"
	"orgops/tasks"
)

// Estimate is the progress to expect of a run, and its obstacles.
type Estimate struct {
	Rate float64 // rows settled a second over the last 30 s; 0: none, or not known yet
	// Left is how long the open rows take at the tenant's pace, without those that wait for
	// DNS; 0: not known, or no such rows.
	Left  time.Duration
	DNS   int64     // rows that wait for their token to appear
	Until time.Time // when these are given up
	Again int64     // rows that wait for another attempt
	Why   string    // most of these wait, in words
	Held  []string  // why no row is executed, in words
}

// Figures returns rate and time left: "12.3 rows/s, about 3m10s left"; "": not known.
func (e Estimate) Figures() string {
	var parts []string
	if e.Rate >= 10 {
		parts = append(parts, fmt.Sprintf("%.0f rows/s", e.Rate))
	} else if e.Rate > 0 {
		parts = append(parts, fmt.Sprintf("%.1f rows/s", e.Rate))
	}
	if e.Left > 0 {
		parts = append(parts, "about "+leftText(e.Left)+" left")
	}
	return strings.Join(parts, ", ")
}

// Waits returns the obstacles, and the numbers of rows that wait for DNS and for another
// attempt, in words; "": none.
func (e Estimate) Waits() string {
	parts := slices.Clip(e.Held)
	if e.DNS > 0 {
		parts = append(parts, fmt.Sprintf("%s for DNS, until %s at most", wait(e.DNS), clock(e.Until)))
	}
	if e.Again > 0 {
		parts = append(parts, fmt.Sprintf("%s for another attempt: %s", wait(e.Again), reason(e.Why)))
	}
	return strings.Join(parts, "; ")
}

func wait(rows int64) string {
	if rows == 1 {
		return "1 waits"
	}
	return fmt.Sprint(rows, " wait")
}

// leftText rounds an estimated time.
func leftText(left time.Duration) string {
	switch {
	case left >= 48*time.Hour:
		return fmt.Sprintf("%d days", int(math.Round(left.Hours()/24)))
	case left >= time.Hour:
		return strings.TrimSuffix(left.Round(time.Minute).String(), "0s")
	}
	return max(left, time.Second).Round(time.Second).String()
}

const (
	rateSpan    = 30 * time.Second // over which the rate is measured
	leastSpan   = 2 * time.Second  // below which there is no rate
	readEvery   = 2 * time.Second  // between two reads of a tenant's budget, and of a run's notes
	forgetAfter = 5 * time.Minute  // without an estimate of the run
	notesRead   = 1000             // from which the number of rows that wait for DNS is estimated
)

// Estimator estimates runs from the states that it is given over time. It is safe for
// concurrent use.
type Estimator struct {
	rdb redis.UniversalClient

	mu      sync.Mutex
	runs    map[ledger.RunID]*watched
	tenants map[string]budget
}

// NewEstimator returns an Estimator that knows no run yet.
func NewEstimator(rdb redis.UniversalClient) *Estimator {
	return &Estimator{rdb: rdb, runs: map[ledger.RunID]*watched{}, tenants: map[string]budget{}}
}

// watched has the facts about a run that an estimate needs.
type watched struct {
	moves  []move
	rate   float64   // rows settled a second over the last 30 s
	calls  float64   // requests a row; 0: not known
	dns    int64     // rows that wait for it
	again  int64     // rows that wait for another attempt
	why    string    // most of these wait
	readAt time.Time // when its notes were read
	usedAt time.Time // when it was last estimated
}

// move is the number of settled rows of a run at a time.
type move struct {
	at      time.Time
	settled int64
}

// budget is the state of a tenant's when it was read.
type budget struct {
	readAt    time.Time
	settings  tenant.Announced
	announced bool
	state     pace.State
	paused    string // the queue of rows, if it is paused
}

// Estimate records the present states of the runs, and returns an estimate of each. A value
// that cannot be read stays as it was: following a run does not depend on it.
func (e *Estimator) Estimate(ctx context.Context, now time.Time, all []ledger.Run) []Estimate {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.read(ctx, now, all)
	maps.DeleteFunc(e.runs, func(_ ledger.RunID, w *watched) bool { return now.Sub(w.usedAt) > forgetAfter })
	estimates := make([]Estimate, len(all))
	for i, r := range all {
		if !r.Ended() {
			estimates[i] = Estimate{
				Rate: e.runs[r.ID].rate, Left: e.left(now, r, all),
				DNS: e.waiting(r), Until: r.CreatedAt.Add(cmp.Or(r.GiveUp, tasks.DefaultGiveUp)),
				Again: e.runs[r.ID].again, Why: e.runs[r.ID].why, Held: e.held(r),
			}
		}
	}
	return estimates
}

// read updates the counts of the runs, and reads slowly changing values unless they were just
// read.
func (e *Estimator) read(ctx context.Context, now time.Time, all []ledger.Run) {
	var names []string // of tenants
	var open []ledger.Run
	for _, r := range all {
		w := e.runs[r.ID]
		if w == nil {
			w = &watched{}
			e.runs[r.ID] = w
		}
		w.usedAt = now
		w.move(now, r.Settled())
		if t := e.tenants[string(r.Tenant)]; !r.Ended() && now.Sub(t.readAt) >= readEvery {
			t.readAt = now
			e.tenants[string(r.Tenant)] = t
			names = append(names, string(r.Tenant))
		}
		if !r.Ended() && now.Sub(w.readAt) >= readEvery {
			w.readAt = now
			open = append(open, r)
		}
	}
	tenants := make([]budget, len(names))
	_ = redisconn.Batch(ctx, e.rdb, len(names), func(i int, rdb redis.UniversalClient) error {
		tenants[i] = e.tenants[names[i]]
		tenants[i].read(ctx, rdb, names[i])
		return nil
	})
	for i, name := range names {
		e.tenants[name] = tenants[i]
	}
	_ = redisconn.Batch(ctx, e.rdb, len(open), func(i int, rdb redis.UniversalClient) error {
		e.runs[open[i].ID].read(ctx, runs.New(rdb), open[i], e.tenants[string(open[i].Tenant)].settings.MaxClientsPerRequest)
		return nil
	})
}

// move records the number of settled rows, and measures the rate.
func (w *watched) move(now time.Time, settled int64) {
	if n := len(w.moves); n == 0 || now.Sub(w.moves[n-1].at) >= time.Second {
		w.moves = append(w.moves, move{now, settled})
	}
	for len(w.moves) > 1 && now.Sub(w.moves[1].at) >= rateSpan {
		w.moves = w.moves[1:]
	}
	w.rate = 0
	if span := now.Sub(w.moves[0].at); span >= leastSpan {
		w.rate = max(float64(settled-w.moves[0].settled), 0) / span.Seconds()
	}
}

// read reads the state of the tenant. A value that cannot be read stays as it was.
func (t *budget) read(ctx context.Context, rdb redis.UniversalClient, name string) {
	if settings, announced, err := tenant.ReadAnnounced(ctx, rdb, name); err == nil {
		t.settings, t.announced = settings, announced
	}
	if state, err := pace.New(pace.Config{Redis: rdb, Tenant: name}).State(ctx); err == nil {
		t.state = state
	}
	if queue, err := PausedQueue(ctx, rdb, name); err == nil {
		t.paused = queue
	}
}

// read reads how many requests a row of the run takes, and how many rows wait for DNS or
// for another attempt. A value that cannot be read stays as it was.
func (w *watched) read(ctx context.Context, ledger *runs.Ledger, r ledger.Run, maxClients int) {
	if w.calls == 0 {
		if calls, err := intake.CallsPerRow(ctx, ledger, r, maxClients); err == nil {
			w.calls = calls
		}
	}
	notes, noted, err := ledger.Notes(ctx, r.ID, notesRead)
	if err != nil {
		return
	}
	dns, reasons := 0, map[string]int{}
	w.again, w.why = 0, ""
	for _, row := range notes {
		if strings.HasPrefix(row.Reason, string(engine.NotYetFound)+":") {
			dns++
		} else if why, ok := strings.CutPrefix(row.Reason, string(engine.Transient)+": "); ok {
			why = common(why)
			reasons[why]++
			if w.again++; reasons[why] > reasons[w.why] {
				w.why = why
			}
		}
	}
	scale := float64(noted) / float64(max(len(notes), 1))
	w.dns, w.again = int64(float64(dns)*scale), int64(float64(w.again)*scale)
}

// left returns how long the run takes at the tenant's pace. Runs of a tenant that are
// estimated together share its rate equally, until each has ended.
func (e *Estimator) left(now time.Time, r ledger.Run, all []ledger.Run) time.Duration {
	t, w, own := e.tenants[string(r.Tenant)], e.runs[r.ID], e.ahead(r)
	limit, err := t.settings.Limit()
	switch {
	case !t.announced || err != nil || own == 0, limit.Rate.IsUnlimited() && w.rate == 0:
		return 0
	case limit.Rate.IsUnlimited():
		return seconds(own / w.calls / w.rate)
	}
	effective, _ := limit.Effective()
	calls := 0.0
	for _, other := range all {
		if other.Tenant == r.Tenant {
			calls += min(own, e.ahead(other))
		}
	}
	return seconds(calls/effective.PerSecond()) + max(t.state.PausedUntil.Sub(now), 0)
}

// ahead returns how many requests the open rows of the run take, without those that wait
// for DNS; 0: none, or not known, as while all others wait for another attempt.
func (e *Estimator) ahead(r ledger.Run) float64 {
	rows := r.Total() - r.Settled() - e.waiting(r)
	if !r.Sealed() || r.Ended() || Stopped(r) != "" || rows <= e.runs[r.ID].again {
		return 0
	}
	return float64(rows) * e.runs[r.ID].calls
}

// waiting returns how many rows of the run wait for DNS.
func (e *Estimator) waiting(r ledger.Run) int64 {
	if !r.Sealed() {
		return e.runs[r.ID].dns
	}
	return min(e.runs[r.ID].dns, r.Total()-r.Settled())
}

// seconds converts seconds to a duration of at most 100 years.
func seconds(s float64) time.Duration {
	const most = 100 * 365 * 24 * 60 * 60
	return time.Duration(min(s, most) * float64(time.Second))
}

// held returns why no row of the run is executed, in words.
func (e *Estimator) held(r ledger.Run) (why []string) {
	t := e.tenants[string(r.Tenant)]
	switch {
	case r.Paused:
		return []string{"paused; to continue: enqueue runs resume " + string(r.ID)}
	case !r.CancelledAt.IsZero():
		why = append(why, "being cancelled; rows in progress finish first")
	case Stopped(r) != "":
		why = append(why, Stopped(r))
	case r.Scanning():
		why = append(why, "scanning for rows; "+ScanState(r))
	case !r.Sealed():
		why = append(why, "still being submitted")
	}
	if !t.announced {
		why = append(why, "no worker for tenant "+string(r.Tenant)+" has been seen on this Redis")
	}
	for _, o := range Obstacles(string(r.Tenant), t.state, t.paused) {
		why = append(why, o.String())
	}
	return why
}
