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

	"orgops/internal/activity"
	"orgops/internal/dispatch"
	"orgops/internal/engine"
	"orgops/internal/ledger"
	"orgops/internal/pace"
	"orgops/internal/redisconn"
	"orgops/tasks"
)

// Estimate is the progress to expect of a run, and its obstacles.
type Estimate struct {
	Rate float64 // rows settled a second in the last minute; 0: none, or not known yet
	// Left is how long the open rows take at that rate, without those that wait for DNS or for
	// another attempt; 0: not known, no such rows, or the run is held.
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
		parts = append(parts, fmt.Sprintf("%s for DNS, until %s at most", wait(e.DNS), Stamp(e.Until)))
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
	rateSpan    = 2 * time.Minute  // over which the rate is measured
	burstSpan   = 5 * time.Second  // in which a rested tenant allows more than its rate
	leastSpan   = 2 * time.Second  // below which there is no rate
	readEvery   = 2 * time.Second  // between two reads of a tenant's budget, and of a run's notes
	forgetAfter = 5 * time.Minute  // without an estimate of the run
	shortPause  = 10 * time.Second // by the API, of which the rate is that of the past
	fewRows     = 50               // of a run that takes no share worth counting
	mostRivals  = 50               // of the newest
	soon        = 5 * time.Second  // a row that is due by then does not wait
	notesRead   = 1000             // from which the number of rows that wait for DNS is estimated
)

// Estimator estimates runs from the states that it is given over time. It is safe for
// concurrent use.
type Estimator struct {
	rdb redis.UniversalClient

	mu      sync.Mutex // never held while Redis is read
	runs    map[ledger.Incarnation]watched
	tenants map[ledger.Tenant]budget
}

// NewEstimator returns an Estimator that knows no run yet.
func NewEstimator(rdb redis.UniversalClient) *Estimator {
	return &Estimator{rdb: rdb, runs: map[ledger.Incarnation]watched{}, tenants: map[ledger.Tenant]budget{}}
}

// watched has the facts about a run that an estimate needs.
type watched struct {
	moves  []move    // since it was held last, or its rivals changed
	rivals string    // see budget
	dns    int64     // rows that wait for it
	again  int64     // rows that wait for another attempt
	why    string    // most of these wait
	paused string    // by whom and when it was paused
	readAt time.Time // when its notes were read
	usedAt time.Time // when it was last estimated
}

// move is the state of a run at a time: how many rows are settled, and how many neither that nor wait.
type move struct {
	at            time.Time
	settled, left int64
}

// budget is the state of a tenant when it was read.
type budget struct {
	readAt    time.Time
	known     bool // it could be read
	obstacles []Obstacle
	rivals    []rival // its open runs, which share the rate
}

// rival is a run that shares the rate of its tenant with others.
type rival struct {
	run   ledger.Incarnation
	class dispatch.Class
	left  int64 // rows that are not settled and do not wait
}

// Estimate records the present states of the runs, and returns an estimate of each. A value
// that cannot be read stays as it was: following a run does not depend on it.
func (e *Estimator) Estimate(ctx context.Context, now time.Time, all []ledger.Run) []Estimate {
	runs, tenants := e.known(now, all)
	e.read(ctx, now, all, runs, tenants)
	estimates := make([]Estimate, len(all))
	for i, r := range all {
		if r.Ended() {
			continue
		}
		w, of := runs[r.Incarnation], tenants[r.Tenant]
		open := r.Total() - r.Settled()
		if r.Sealed() {
			w.dns = min(w.dns, open)
		}
		left := max(open-w.dns-w.again, 0)
		one := Estimate{DNS: w.dns, Until: r.CreatedAt.Add(cmp.Or(r.GiveUp, tasks.DefaultGiveUp)),
			Again: w.again, Why: w.why, Held: held(r, of, w.paused)}
		w = e.record(now, r, of, left)
		rate, leaves := w.rate(now)
		one.Rate = rate
		if ahead := of.ahead(r, left); len(one.Held) == 0 && leaves > 0 && left > 0 {
			const most = 100 * 365 * 24 * 60 * 60 // seconds that a duration can have
			one.Left = time.Duration(min(ahead/leaves, most) * float64(time.Second))
		}
		estimates[i] = one
	}
	return estimates
}

// known returns the facts about the runs and their tenants, and forgets those of others.
func (e *Estimator) known(now time.Time, all []ledger.Run) (map[ledger.Incarnation]watched, map[ledger.Tenant]budget) {
	e.mu.Lock()
	defer e.mu.Unlock()
	maps.DeleteFunc(e.runs, func(_ ledger.Incarnation, w watched) bool { return now.Sub(w.usedAt) > forgetAfter })
	runs, tenants := map[ledger.Incarnation]watched{}, map[ledger.Tenant]budget{}
	for _, r := range all {
		runs[r.Incarnation], tenants[r.Tenant] = e.runs[r.Incarnation], e.tenants[r.Tenant]
	}
	return runs, tenants
}

// record records the present state of a run. The rate is measured anew after the run was held, apart
// from short pauses, and when its rivals change.
func (e *Estimator) record(now time.Time, r ledger.Run, of budget, left int64) watched {
	rivals := ""
	for _, other := range of.rivals {
		if other.run != r.Incarnation {
			rivals += string(other.run)
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	w := e.runs[r.Incarnation]
	if w.usedAt = now; w.rivals != rivals || of.holds(now, r, len(w.moves) < 2) {
		w.rivals, w.moves = rivals, nil
	}
	if n := len(w.moves); n == 0 || now.Sub(w.moves[n-1].at) >= time.Second {
		w.moves = append(slices.Clip(w.moves), move{now, r.Settled(), left})
	}
	for len(w.moves) > 1 && now.Sub(w.moves[1].at) >= rateSpan {
		w.moves = w.moves[1:]
	}
	e.runs[r.Incarnation] = w
	return w
}

// rate returns how many rows were settled a second, and how many fewer are left that do not wait; 0
// if that is not known yet. The burst at the beginning is left out.
func (w watched) rate(now time.Time) (settled, leave float64) {
	first, last := w.moves[0], w.moves[len(w.moves)-1]
	begin := first.at.Add(min(now.Sub(first.at)/2, burstSpan))
	for _, m := range w.moves {
		if !m.at.After(begin) {
			first = m
		}
	}
	if now.Sub(first.at) < leastSpan {
		return 0, 0
	}
	span := now.Sub(first.at).Seconds()
	return max(float64(last.settled-first.settled), 0) / span, max(float64(first.left-last.left), 0) / span
}

// holds reports whether no row of the run is executed, for longer than a short pause, or is still held.
func (b budget) holds(now time.Time, r ledger.Run, held bool) bool {
	return Stopped(r) != "" || slices.ContainsFunc(b.obstacles, func(o Obstacle) bool {
		return o.Concerns(r) && (held || o.until.IsZero() || o.until.Sub(now) > shortPause)
	})
}

// ahead returns how many of its rows a run could execute at its present rate until its last one: its
// tenant's runs of the same class take equal shares, and later classes a ninth ([dispatch.Plan]).
func (b budget) ahead(r ledger.Run, left int64) float64 {
	class, before, beside, sharing := dispatch.ClassOf(r), int64(0), left, 1
	for _, other := range b.rivals {
		switch {
		case other.run == r.Incarnation:
		case other.class < class:
			before += other.left
		case other.class == class:
			beside += min(other.left, left)
			sharing++
		}
	}
	if before > 0 {
		return float64(before+beside) / float64(9*sharing)
	}
	return float64(beside) / float64(sharing)
}

// read reads what changes slowly and was not just read, and keeps it for others.
func (e *Estimator) read(
	ctx context.Context, now time.Time, all []ledger.Run, known map[ledger.Incarnation]watched,
	tenants map[ledger.Tenant]budget,
) {
	var names []ledger.Tenant
	var open []ledger.Run
	for _, r := range all {
		if !r.Ended() && now.Sub(tenants[r.Tenant].readAt) >= readEvery && !slices.Contains(names, r.Tenant) {
			names = append(names, r.Tenant)
		}
		if !r.Ended() && now.Sub(known[r.Incarnation].readAt) >= readEvery {
			open = append(open, r)
		}
	}
	states, notes := make([]budget, len(names)), make([]watched, len(open))
	var fleet Fleet // unknown if it cannot be read
	if len(names) > 0 {
		fleet, _ = ReadFleet(ctx, ledger.New(e.rdb))
	}
	_ = redisconn.Batch(ctx, e.rdb, len(names), func(i int, rdb redis.UniversalClient) error {
		states[i] = readBudget(ctx, rdb, names[i], fleet)
		return nil
	})
	_ = redisconn.Batch(ctx, e.rdb, len(open), func(i int, rdb redis.UniversalClient) error {
		notes[i] = waitsOf(ctx, ledger.New(rdb), open[i], known[open[i].Incarnation])
		if r := open[i]; r.Paused {
			entries, _, _ := activity.Page(ctx, rdb, activity.Query{Tenants: []string{string(r.Tenant)}, Run: string(r.ID),
				Action: activity.Paused, Since: r.CreatedAt, Limit: 1})
			notes[i].paused = pausedBy(r, entries)
		}
		return nil
	})
	e.mu.Lock()
	defer e.mu.Unlock()
	for i, name := range names {
		if states[i].known {
			tenants[name] = states[i]
		}
		one := tenants[name]
		one.readAt = now
		tenants[name], e.tenants[name] = one, one
	}
	for i, r := range open {
		w := e.runs[r.Incarnation] // others may have added moves
		w.dns, w.again, w.why, w.paused, w.readAt = notes[i].dns, notes[i].again, notes[i].why, notes[i].paused, now
		known[r.Incarnation], e.runs[r.Incarnation] = w, w
	}
}

func readBudget(ctx context.Context, rdb redis.UniversalClient, name ledger.Tenant, fleet Fleet) budget {
	state, noState := pace.New(pace.Config{Redis: rdb, Tenant: string(name)}).State(ctx)
	obstacles, err := ReadObstacles(ctx, rdb, name, fleet, state)
	b, l := budget{known: err == nil && noState == nil, obstacles: obstacles}, ledger.New(rdb)
	open, _, _ := l.Page(ctx, ledger.Query{Tenant: func(t ledger.Tenant) bool { return t == name }, Open: true,
		Match: func(r ledger.Run) bool { return r.Sealed() && Stopped(r) == "" }, Limit: mostRivals})
	for _, r := range open {
		waiting, _ := l.Waiting(ctx, r)
		if left := r.Total() - r.Settled() - waiting; left > fewRows {
			b.rivals = append(b.rivals, rival{r.Incarnation, dispatch.ClassOf(r), left})
		}
	}
	return b
}

// waitsOf reads how many rows wait for DNS or for another attempt. If that fails they stay
// as they were.
func waitsOf(ctx context.Context, l *ledger.Ledger, run ledger.Run, was watched) (w watched) {
	notes, noted, err := readNotes(ctx, l, run, notesRead)
	if err != nil {
		return was
	}
	reasons := map[string]int{}
	for _, row := range notes {
		outcome, why, _ := strings.Cut(row.Reason, ": ")
		switch {
		case outcome == string(engine.NotYetFound):
			w.dns++
		case outcome == string(engine.Transient), time.Until(row.Next) > soon:
			why = common(why)
			reasons[why]++
			if w.again++; reasons[why] > reasons[w.why] {
				w.why = why
			}
		}
	}
	scale := float64(noted) / float64(max(len(notes), 1))
	w.dns, w.again = int64(float64(w.dns)*scale), int64(float64(w.again)*scale)
	return w
}

// pausedBy returns the user and the time of the run's pause, by its activity; "": it is not paused,
// or the entry is deleted.
func pausedBy(r ledger.Run, entries []activity.Entry) (text string) {
	for _, e := range entries {
		if e.Action == activity.Paused && stateOf(r) == Paused {
			text = "paused by " + e.Who() + " since " + Stamp(e.At)
		}
	}
	return text
}

// held returns why no row of the run is executed, in words. paused has the user who paused it.
func held(r ledger.Run, of budget, paused string) (why []string) {
	switch {
	case r.Paused:
		return []string{cmp.Or(paused, "paused") + "; to continue: enqueue runs resume " + string(r.ID)}
	case !r.CancelledAt.IsZero():
		why = append(why, "being cancelled; rows in progress finish first")
	case Stopped(r) != "":
		why = append(why, Stopped(r))
	case r.Scanning():
		why = append(why, "scanning for rows; "+scanOf(r).String())
	case !r.Sealed():
		why = append(why, "still being submitted")
	}
	for _, o := range of.obstacles {
		if o.Concerns(r) {
			why = append(why, o.String())
		}
	}
	return why
}
