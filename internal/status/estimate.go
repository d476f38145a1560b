package status

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/internal/activity"
	"orgops/internal/evidence"
	"orgops/internal/ledger"
	"orgops/internal/obstacle"
	"orgops/internal/pace"
	"orgops/internal/redisconn"
	"orgops/internal/stamp"
	"orgops/tasks"
)

// Estimate is the progress to expect of a run, and its obstacles.
type Estimate struct {
	Rate float64 // rows settled or put off a second in the last two minutes; 0: none, or not known yet
	// Left is how long the open rows take at that rate, without those that wait for DNS or for
	// another attempt; 0: not known, no such rows, or the run is held. It changes with the tenant's
	// other runs, two minutes behind them.
	Left  time.Duration
	Ends  time.Time // when they are executed then; zero: Left is 0
	DNS   int64     // rows that wait for their token to appear
	Until time.Time // when these are given up; zero: not known
	Again int64     // rows that wait for another attempt
	Why   string    // most of these wait, in words
	Held  []Hold    // why no row is executed
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
		left := "about " + Span(max(e.Left, time.Second)) + " left"
		if e.Left >= tellsTheTime {
			left += ", until " + stamp.UTC(e.Ends.Truncate(time.Minute))
		}
		parts = append(parts, left)
	}
	return strings.Join(parts, ", ")
}

// Waits returns the obstacles, and the numbers of rows that wait for DNS and for another
// attempt, in words; "": none.
func (e Estimate) Waits() string {
	var parts []string
	for _, h := range e.Held {
		parts = append(parts, h.String())
	}
	if e.DNS > 0 {
		text := wait(e.DNS) + " for DNS"
		if !e.Until.IsZero() {
			text += ", until " + stamp.UTC(e.Until) + " at most"
		}
		parts = append(parts, text)
	}
	if e.Again > 0 {
		parts = append(parts, fmt.Sprintf("%s for another attempt: %s", wait(e.Again), ShownReason(e.Why)))
	}
	return strings.Join(parts, "; ")
}

func wait(rows int64) string {
	if rows == 1 {
		return "1 waits"
	}
	return fmt.Sprint(rows, " wait")
}

const (
	rateSpan     = 2 * time.Minute  // over which the rate is measured
	burstSpan    = 5 * time.Second  // in which a rested tenant allows more than its rate
	leastSpan    = 2 * time.Second  // below which there is no rate
	forgetAfter  = 5 * time.Minute  // without an estimate of the run
	shortPause   = 10 * time.Second // by the API, of which the rate is that of the past
	soon         = 5 * time.Second  // a row that is due by then does not wait
	tellsTheTime = 10 * time.Minute // left of a run, from which the time of its end is of use
	notesRead    = 1000             // from which the number of rows that wait for DNS is estimated
)

// Estimator estimates runs from the states that it is given over time. It is safe for
// concurrent use.
type Estimator struct {
	rdb  redis.Cmdable
	mu   sync.Mutex // never held while Redis is read
	runs map[ledger.Incarnation]watched
}

// NewEstimator returns an Estimator that knows no run yet.
func NewEstimator(rdb redis.Cmdable) *Estimator {
	return &Estimator{rdb: rdb, runs: map[ledger.Incarnation]watched{}}
}

// watched has the facts about a run that an estimate needs.
type watched struct {
	waits
	moves  []move // since it was held last
	usedAt time.Time
}

// waits are the rows of a run that wait.
type waits struct {
	dns, again int64  // for it, and for another attempt
	why        string // most of the latter wait
}

// move is how many rows of a run were settled or waited at a time.
type move struct {
	at   time.Time
	done int64
}

// budget is the state of a tenant; empty: it could not be read.
type budget struct {
	giveUp    time.Duration // its setting; 0: not known
	obstacles []obstacle.Obstacle
}

// Estimate records the present states of the runs, and returns an estimate of each. Following a run
// does not depend on values that cannot be read.
func (e *Estimator) Estimate(ctx context.Context, now time.Time, all []ledger.Run) []Estimate {
	budgets := e.budgets(ctx, all)
	estimates := make([]Estimate, len(all))
	_ = redisconn.Batch(ctx, e.rdb, len(all), func(i int, rdb redis.Cmdable) error {
		if !all[i].Ended() {
			estimates[i] = e.estimate(ctx, rdb, now, all[i], budgets[all[i].Tenant])
		}
		return nil
	})
	return estimates
}

// budgets reads the budgets of the tenants of open runs.
func (e *Estimator) budgets(ctx context.Context, all []ledger.Run) map[ledger.Tenant]budget {
	budgets := map[ledger.Tenant]budget{}
	for _, r := range all {
		if !r.Ended() {
			budgets[r.Tenant] = budget{}
		}
	}
	if len(budgets) == 0 {
		return budgets
	}
	names := slices.Collect(maps.Keys(budgets))
	fleet, _ := ReadFleet(ctx, ledger.New(e.rdb)) // unknown if it cannot be read
	states := make([]budget, len(names))
	_ = redisconn.Batch(ctx, e.rdb, len(names), func(i int, rdb redis.Cmdable) error {
		states[i] = readBudget(ctx, rdb, names[i], fleet)
		return nil
	})
	for i, name := range names {
		budgets[name] = states[i]
	}
	return budgets
}

func (e *Estimator) estimate(ctx context.Context, rdb redis.Cmdable, now time.Time, r ledger.Run,
	of budget) Estimate {
	waits, failed := waitsOf(ctx, ledger.New(rdb), r)
	paused := ""
	if r.Paused {
		entries, _, _ := activity.Page(ctx, rdb, activity.Query{Tenants: []string{string(r.Tenant)}, Run: string(r.ID),
			Action: activity.Paused, Since: r.CreatedAt, Limit: 1})
		paused = pausedBy(r, entries)
	}
	w := e.record(now, r, of, waits, failed)
	one := Estimate{Rate: w.rate(now), DNS: w.dns, Again: w.again, Why: w.why, Held: held(r, of, paused)}
	if cmp.Or(r.GiveUp, of.giveUp) > 0 {
		_, one.Until = tasks.Awaited(r.CreatedAt, time.Time{}, r.GiveUp, of.giveUp)
	}
	if left := r.Total() - r.Settled() - w.dns - w.again; len(one.Held) == 0 && one.Rate > 0 && left > 0 {
		one.Left = time.Duration(float64(left) / one.Rate * float64(time.Second))
		one.Ends = now.Add(one.Left)
	}
	return one
}

// record records the present state of a run. The rate is measured anew after the run was held,
// apart from short pauses.
func (e *Estimator) record(now time.Time, r ledger.Run, of budget, read waits, failed error) watched {
	e.mu.Lock()
	defer e.mu.Unlock()
	maps.DeleteFunc(e.runs, func(_ ledger.Incarnation, w watched) bool { return now.Sub(w.usedAt) > forgetAfter })
	w := e.runs[r.Incarnation]
	if failed == nil {
		w.waits = read
	}
	if r.HasAllRows() {
		w.dns = min(w.dns, r.Total()-r.Settled())
	}
	w.usedAt = now
	if of.holds(now, r, len(w.moves) < 2) {
		w.moves = nil
	}
	if n := len(w.moves); n == 0 || now.Sub(w.moves[n-1].at) >= time.Second {
		w.moves = append(slices.Clip(w.moves), move{now, r.Settled() + w.dns + w.again})
	}
	for len(w.moves) > 1 && now.Sub(w.moves[1].at) >= rateSpan {
		w.moves = w.moves[1:]
	}
	e.runs[r.Incarnation] = w
	return w
}

// rate returns how many rows were settled or put off a second; 0 if that is not known yet. The
// burst at the beginning is left out.
func (w watched) rate(now time.Time) float64 {
	first := w.moves[0]
	last := w.moves[len(w.moves)-1]
	begin := first.at.Add(min(now.Sub(first.at)/2, burstSpan))
	for _, m := range w.moves {
		if !m.at.After(begin) {
			first = m
		}
	}
	if now.Sub(first.at) < leastSpan {
		return 0
	}
	return max(float64(last.done-first.done), 0) / now.Sub(first.at).Seconds()
}

// holds reports whether no row of the run is executed, for longer than a short pause or still.
func (b budget) holds(now time.Time, r ledger.Run, held bool) bool {
	return Stopped(r) != "" || slices.ContainsFunc(b.obstacles, func(o obstacle.Obstacle) bool {
		return Concerns(o, r) && (held || o.Until.IsZero() || o.Until.Sub(now) > shortPause)
	})
}

func readBudget(ctx context.Context, rdb redis.Cmdable, name ledger.Tenant, fleet Fleet) budget {
	state, noState := pace.New(pace.Config{Redis: rdb, Tenant: string(name)}).State(ctx)
	read, settings, err := ReadState(ctx, rdb, name, fleet, state)
	if err != nil || noState != nil {
		return budget{}
	}
	return budget{giveUp: time.Duration(settings.GiveUp), obstacles: read.Obstacles()}
}

// waitsOf reads how many rows wait for DNS or for another attempt.
func waitsOf(ctx context.Context, l *ledger.Ledger, run ledger.Run) (w waits, err error) {
	notes, noted, err := readNotes(ctx, l, run, notesRead)
	reasons := map[string]int{}
	for _, row := range notes {
		outcome, why, _ := strings.Cut(row.Reason, ": ")
		switch {
		case outcome == string(ledger.NotYetFound):
			w.dns++
		case outcome == string(ledger.Transient), time.Until(row.Next) > soon:
			why = evidence.Common(why)
			reasons[why]++
			if w.again++; reasons[why] > reasons[w.why] {
				w.why = why
			}
		}
	}
	scale := float64(noted) / float64(max(len(notes), 1))
	w.dns = int64(float64(w.dns) * scale)
	w.again = int64(float64(w.again) * scale)
	return w, err
}

// pausedBy returns the user and the time of the run's pause, by its activity; "": it is not paused,
// or the entry is deleted.
func pausedBy(r ledger.Run, entries []activity.Entry) (text string) {
	for _, e := range entries {
		if e.Action == activity.Paused && stateOf(r) == Paused {
			text = "paused by " + e.Who() + " since " + stamp.UTC(e.At)
		}
	}
	return text
}

// held returns why no row of the run is executed. paused has the user who paused it.
func held(r ledger.Run, of budget, paused string) (all []Hold) {
	switch {
	case r.Paused:
		return []Hold{{Why: cmp.Or(paused, "paused"), Fix: ToContinue(r)}}
	case !r.CancelledAt.IsZero():
		all = append(all, Hold{Why: "being cancelled", Fix: "rows in progress finish first"})
	case Stopped(r) != "":
		all = append(all, Hold{Why: Stopped(r)})
	case r.Scanning():
		all = append(all, Hold{Why: "scanning for rows", Fix: scanOf(r).String()})
	case !r.HasAllRows():
		all = append(all, Hold{Why: "still being submitted"})
	}
	for _, o := range of.obstacles {
		if Concerns(o, r) {
			all = append(all, Hold{Why: o.What, Fix: o.Fix})
		}
	}
	return all
}
