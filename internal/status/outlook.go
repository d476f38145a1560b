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
	"orgops/internal/pace"
	"orgops/internal/redisconn"
	"orgops/internal/runs"
	tenants "orgops/internal/tenant"
	"orgops/tasks"
)

// Outlook is what is said of a run beside its counts.
type Outlook struct {
	Rate float64 // rows settled a second of late; 0: none, or not known yet
	// Left is how long the rest takes at the tenant's pace, but for rows that wait
	// for DNS; 0: not known, or no such rows.
	Left  time.Duration
	DNS   int64     // rows that wait for their token to appear
	Until time.Time // when these are given up
	Held  []string  // the reasons why nothing moves, in words
}

// Figures are how fast the run is, and how long it takes: "12.3 rows/s, about
// 3m10s left"; empty where nothing is known.
func (o Outlook) Figures() string {
	var parts []string
	if o.Rate >= 10 {
		parts = append(parts, fmt.Sprintf("%.0f rows/s", o.Rate))
	} else if o.Rate > 0 {
		parts = append(parts, fmt.Sprintf("%.1f rows/s", o.Rate))
	}
	if o.Left > 0 {
		parts = append(parts, "about "+leftText(o.Left)+" left")
	}
	return strings.Join(parts, ", ")
}

// Waits are what the run waits for, in words; empty where that is nothing but its turn.
func (o Outlook) Waits() string {
	parts := o.Held
	if o.DNS > 0 {
		text := "%d wait for DNS, until %s at most"
		if o.DNS == 1 {
			text = "%d waits for DNS, until %s at most"
		}
		parts = append(slices.Clip(parts), fmt.Sprintf(text, o.DNS, clock(o.Until)))
	}
	return strings.Join(parts, "; ")
}

// leftText is an estimate, and no more exact than one is.
func leftText(left time.Duration) string {
	switch {
	case left >= 48*time.Hour:
		return fmt.Sprintf("%d days", int(math.Round(left.Hours()/24)))
	case left >= time.Hour:
		return strings.TrimSuffix(left.Round(time.Minute).String(), "0s")
	}
	return max(left, time.Second).Round(time.Second).String()
}

// clock is a time for somebody who watches: without its date where that is today's.
func clock(at time.Time) string {
	at = at.UTC()
	if time.Until(at).Abs() < 20*time.Hour {
		return at.Format("15:04:05 UTC")
	}
	return at.Format("2006-01-02 15:04 UTC")
}

const (
	ofLate      = 30 * time.Second // over which the rate is taken
	leastSpan   = 2 * time.Second  // that a rate takes to be told at all
	lookEvery   = 2 * time.Second  // between two reads of a tenant's budget, and of a run's notes
	forgetAfter = 5 * time.Minute  // that a run is kept in mind that nobody asks for
	notesSeen   = 1000             // notes that tell how many rows wait for DNS
)

// Oracle estimates runs by what it sees of them over time. It is safe for concurrent use.
type Oracle struct {
	rdb redis.UniversalClient

	mu      sync.Mutex
	runs    map[string]*watched
	tenants map[string]tenant
}

// watched is what is known of a run.
type watched struct {
	moves  []move
	rate   float64   // rows settled a second of late
	calls  float64   // a row; 0: not known
	dns    int64     // rows that wait for it
	looked time.Time // when its notes were read
	asked  time.Time // when it was last asked for
}

// move is how far a run was at a time.
type move struct {
	at      time.Time
	settled int64
}

// tenant is how its budget stood when it was looked at.
type tenant struct {
	looked    time.Time
	settings  tenants.Announced
	announced bool
	state     pace.State
	paused    string // the queue of rows, if it is paused
}

// NewOracle returns one that has seen nothing yet.
func NewOracle(rdb redis.UniversalClient) *Oracle {
	return &Oracle{rdb: rdb, runs: map[string]*watched{}, tenants: map[string]tenant{}}
}

// See takes in how the runs stand now, and says what is to be expected of each.
// What cannot be read is as it was before: following does not depend on it.
func (o *Oracle) See(ctx context.Context, now time.Time, all []runs.Run) []Outlook {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.look(ctx, now, all)
	maps.DeleteFunc(o.runs, func(_ string, w *watched) bool { return now.Sub(w.asked) > forgetAfter })
	outlooks := make([]Outlook, len(all))
	for i, r := range all {
		if !r.Ended() {
			outlooks[i] = Outlook{
				Rate: o.runs[r.ID].rate, Left: o.left(now, r, all), DNS: o.waiting(r), Until: r.CreatedAt.Add(cmp.Or(r.GiveUp, tasks.DefaultGiveUp)), Held: o.held(now, r),
			}
		}
	}
	return outlooks
}

// move takes in how many rows are settled, and how fast that was.
func (w *watched) move(now time.Time, settled int64) {
	if n := len(w.moves); n == 0 || now.Sub(w.moves[n-1].at) >= time.Second {
		w.moves = append(w.moves, move{now, settled})
	}
	for len(w.moves) > 1 && now.Sub(w.moves[1].at) >= ofLate {
		w.moves = w.moves[1:]
	}
	w.rate = 0
	if span := now.Sub(w.moves[0].at); span >= leastSpan {
		w.rate = max(float64(settled-w.moves[0].settled), 0) / span.Seconds()
	}
}

// look updates the counts of the runs, and reads slowly changing values unless they were just
// read.
func (o *Oracle) look(ctx context.Context, now time.Time, all []runs.Run) {
	var names []string // of tenants
	var open []runs.Run
	for _, r := range all {
		w := o.runs[r.ID]
		if w == nil {
			w = &watched{}
			o.runs[r.ID] = w
		}
		w.asked = now
		w.move(now, r.Settled)
		if t := o.tenants[r.Tenant]; !r.Ended() && now.Sub(t.looked) >= lookEvery {
			t.looked = now
			o.tenants[r.Tenant] = t
			names = append(names, r.Tenant)
		}
		if !r.Ended() && now.Sub(w.looked) >= lookEvery {
			w.looked = now
			open = append(open, r)
		}
	}
	tenants := make([]tenant, len(names))
	_ = redisconn.Batch(ctx, o.rdb, len(names), func(i int, rdb redis.UniversalClient) error {
		tenants[i] = o.tenants[names[i]]
		tenants[i].read(ctx, rdb, names[i])
		return nil
	})
	for i, name := range names {
		o.tenants[name] = tenants[i]
	}
	_ = redisconn.Batch(ctx, o.rdb, len(open), func(i int, rdb redis.UniversalClient) error {
		o.runs[open[i].ID].read(ctx, runs.New(rdb), open[i], o.tenants[open[i].Tenant].settings.MaxClientsPerRequest)
		return nil
	})
}

// read reads the state of the tenant. A value that cannot be read stays as it was.
func (t *tenant) read(ctx context.Context, rdb redis.UniversalClient, name string) {
	if settings, announced, err := tenants.ReadAnnounced(ctx, rdb, name); err == nil {
		t.settings, t.announced = settings, announced
	}
	if state, err := pace.New(pace.Config{Redis: rdb, Tenant: name}).State(ctx); err == nil {
		t.state = state
	}
	if queue, err := PausedQueue(rdb, name); err == nil {
		t.paused = queue
	}
}

// read reads how many requests a row of the run takes, and how many rows wait for DNS. A
// value that cannot be read stays as it was.
func (w *watched) read(ctx context.Context, ledger *runs.Ledger, r runs.Run, maxClients int) {
	if w.calls == 0 {
		if calls, err := intake.CallsPerRow(ctx, ledger, r, maxClients); err == nil {
			w.calls = calls
		}
	}
	if r.Kind != tasks.TypeVerify {
		return
	}
	notes, noted, err := ledger.Notes(ctx, r.ID, notesSeen)
	if err != nil {
		return
	}
	w.dns = 0
	for _, row := range notes {
		if strings.HasPrefix(row.Reason, string(engine.NotYetFound)+":") {
			w.dns++
		}
	}
	if seen := int64(len(notes)); seen < noted {
		w.dns = int64(float64(w.dns) / float64(seen) * float64(noted))
	}
}

// waiting is how many rows of the run wait for DNS.
func (o *Oracle) waiting(r runs.Run) int64 {
	if !r.Sealed {
		return o.runs[r.ID].dns
	}
	return min(o.runs[r.ID].dns, r.Total-r.Settled)
}

// ahead is how many requests the run still comes to, but for rows that wait for
// DNS; 0: none, or not known.
func (o *Oracle) ahead(r runs.Run) float64 {
	if !r.Sealed || r.Ended() || Stopped(r) != "" {
		return 0
	}
	return float64(r.Total-r.Settled-o.waiting(r)) * o.runs[r.ID].calls
}

// left is how long the run takes at the tenant's pace. Runs that are followed
// together and share a tenant share its rate, each as much as the others, as
// long as they last.
func (o *Oracle) left(now time.Time, r runs.Run, all []runs.Run) time.Duration {
	t, w, own := o.tenants[r.Tenant], o.runs[r.ID], o.ahead(r)
	parsed, err := pace.ParseRate(t.settings.Rate)
	if !t.announced || err != nil || own == 0 {
		return 0
	}
	if parsed.IsUnlimited() && w.rate == 0 {
		return 0
	}
	if parsed.IsUnlimited() {
		return seconds(own / w.calls / w.rate)
	}
	effective, _ := pace.Limit{Rate: parsed, Burst: t.settings.Burst, Reserve: t.settings.Reserve}.Effective()
	calls := 0.0
	for _, other := range all {
		if other.Tenant == r.Tenant {
			calls += min(own, o.ahead(other))
		}
	}
	return seconds(calls/effective.PerSecond()) + max(t.state.PausedUntil.Sub(now), 0)
}

// seconds is that long, for what may be beyond all bounds.
func seconds(s float64) time.Duration {
	const most = 100 * 365 * 24 * 60 * 60
	return time.Duration(min(s, most) * float64(time.Second))
}

// held says why nothing of the run moves, if so.
func (o *Oracle) held(now time.Time, r runs.Run) (why []string) {
	t := o.tenants[r.Tenant]
	switch {
	case r.Paused:
		return []string{"paused; to continue: enqueue runs resume " + r.ID}
	case !r.CancelledAt.IsZero():
		why = append(why, "being cancelled; rows in progress finish first")
	case Stopped(r) != "":
		why = append(why, Stopped(r))
	case r.Walking():
		why = append(why, "scanning for rows; "+WalkState(r))
	case !r.Sealed:
		why = append(why, "still being submitted")
	}
	if !t.announced {
		why = append(why, "no worker for tenant "+r.Tenant+" has been seen on this Redis")
	}
	if t.paused != "" {
		why = append(why, QueueIsPaused(t.paused))
	}
	if t.state.PausedUntil.After(now) {
		why = append(why, "the API has asked this tenant to pause (429) until "+clock(t.state.PausedUntil))
	}
	if t.state.Stopped != nil {
		why = append(why, "the tenant is "+t.state.Stopped.String()+"; to start it: enqueue tenant start "+r.Tenant)
	}
	for _, b := range t.state.Blocks {
		operation := b.Operation
		if operation == pace.All {
			operation = "every operation"
		}
		why = append(why, operation+" is blocked: "+b.Reason)
	}
	return why
}
