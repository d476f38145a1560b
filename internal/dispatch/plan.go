package dispatch

import (
	"slices"
	"time"

	"orgops/internal/ledger"
	"orgops/internal/obstacle"
	"orgops/internal/pace"
	"orgops/internal/release"
)

// Round is everything that a plan depends on.
type Round struct {
	Now time.Time
	// Tasks is how many tasks may be enqueued: see [Window.Free].
	Tasks int
	// Tenant has the tenant's obstacles. Probed has the time of each probe's last release.
	Tenant obstacle.State
	Probed map[Probe]time.Time
	// Permits are those that are left, and Line is how long a request waits for its permit.
	Permits Permits
	Line    time.Duration
	// Runs are those of which rows may be due.
	Runs []Candidate
	// Turn is how many portions former plans had: see [Plan.Turn].
	Turn int
}

// Candidate is a run of which rows may be due, or several runs of one row that share tasks.
type Candidate struct {
	Run   ledger.RunID
	Class ledger.Class
	Kind  release.Kind
	// Due reports of which stages rows may be due.
	Due release.ByStage[bool]
	// ServedAt is when rows of the run were last released, or when the run became a candidate.
	ServedAt time.Time
	// ProbedAt is when its row was last a probe, or when the run became a candidate.
	ProbedAt time.Time
}

// Plan is the result of [Round.Plan].
type Plan struct {
	// Grants are in the order of their first portions, in which they are to be served: an execution
	// may cost more than planned, and must not take the permits of a run that comes before it.
	Grants []Grant
	// Waits are the stages that may have due rows and have no grant.
	Waits []Wait
	// Turn is the number of portions of this plan and all former ones.
	Turn int
}

// Grant is a number of tasks that a run may have for its rows of one stage.
type Grant struct {
	Run   ledger.RunID
	Stage release.Stage
	Tasks int
	// Probes are those that the one task of the grant is for.
	Probes []Probe
}

// Wait is the reason why no row of a stage is released.
type Wait struct {
	Run    ledger.RunID
	Stage  release.Stage
	Reason Reason
}

// Reason is a reason why no row is released: the kind of an obstacle, or one that lasts for a
// moment.
type Reason string

// The reasons besides the obstacles, in the order in which a plan looks for them.
const (
	NextProbe      Reason = "a row finds out from time to time whether requests are accepted"
	ProbeOfAnother Reason = "a row of another run or stage finds out whether requests are accepted"
	LongLine       Reason = "requests wait too long for their permits"
	NoPermit       Reason = "no permit is left"
	NoPlace        Reason = "no place is left"
)

// brief reports whether the reason is to be looked at again within a fraction of a second.
func (r Reason) brief() bool { return r == LongLine || r == NoPermit || r == NoPlace }

const (
	// longestEvery is which portion goes to the run that was served the longest ago, whatever its
	// class: no run starves.
	longestEvery = 9
	// planSteps bounds the portions of a plan: many tasks are shared in bigger portions.
	planSteps = 128
	// longestBulkWait is how long requests may wait for their permits before rows of bulk runs wait.
	longestBulkWait = time.Second
)

// Plan returns how many tasks each run may have for its rows of each stage, or why none. It depends
// on the round alone.
func (r Round) Plan() Plan {
	// A share is of one stage of a run. A run's rows are released in the order of stages.
	var shares []*share
	for i := range r.Runs {
		run := &r.Runs[i]
		granted := new(int)
		for stage := range release.Stages {
			if run.Due.Of(stage) {
				cost := run.Kind.Cost.Of(stage)
				shares = append(shares, &share{run: run, granted: granted, stage: stage, cost: cost, most: r.Tasks})
			}
		}
	}

	// What holds a stage whichever others there are: the queue, an operator's stop, a pause that the
	// API has asked for, a block between two of its probes.
	obstacles := r.Tenant.Obstacles()
	for _, s := range shares {
		work := s.run.Kind.WorkAt(s.stage)
		s.held = holding(obstacles, work)
		if s.held == "" {
			s.held, s.probes = r.probes(work)
		}
	}

	// One row is released for a probe: of the run that was probed the longest ago, since no row of
	// another one may be able to end the block.
	taken := map[Probe]bool{}
	byProbe := slices.Clone(shares)
	slices.SortStableFunc(byProbe, func(a, b *share) int { return a.run.ProbedAt.Compare(b.run.ProbedAt) })
	for _, s := range byProbe {
		if s.held != "" || len(s.probes) == 0 {
			continue
		}
		s.most = min(s.most, 1)
		if slices.ContainsFunc(s.probes, func(p Probe) bool { return taken[p] }) {
			s.held = ProbeOfAnother
			continue
		}
		for _, p := range s.probes {
			taken[p] = true
		}
	}

	// The line is of the requests of rows that wait for their permits: scans and sweeps are behind
	// them, and do not count. It is long if executions make more requests than they cost on average,
	// or the rate is lower than it is set to be: requests of small runs would wait behind all of
	// them, so rows of bulk runs wait, except in their ninth portion. A line stands still during a
	// pause, or while the API does not answer, and moves again after it: each request leaves the
	// line when it has waited too long.
	for _, s := range shares {
		s.inLine = s.run.Class == ledger.Bulk && s.cost > 0 && r.Line >= longestBulkWait
	}

	// Runs of the first class that has one take equal portions, the one served the longest ago first.
	// Each ninth portion goes to the run of any class that was served the longest ago.
	left := r.Tasks
	permits := r.Permits
	plan := Plan{Turn: r.Turn}
	portion := max(1, left/planSteps)
	var order []*share
	for left > 0 {
		anyClass := (plan.Turn+1)%longestEvery == 0
		var best *share
		for _, s := range shares {
			if s.held != "" || s.tasks >= s.most || (s.inLine && !anyClass) || permits.Tasks(1, s.cost) == 0 {
				continue
			}
			if best == nil || s.before(best, anyClass) {
				best = s
			}
		}
		if best == nil {
			break
		}
		n := permits.Tasks(min(portion, left, best.most-best.tasks), best.cost)
		if best.tasks == 0 {
			order = append(order, best)
		}
		best.tasks += n
		*best.granted += n
		permits.Spend(n, best.cost)
		left -= n
		plan.Turn++
	}

	for _, s := range order {
		plan.Grants = append(plan.Grants, Grant{s.run.Run, s.stage, s.tasks, s.probes})
	}
	for _, s := range shares {
		if s.tasks > 0 {
			continue
		}
		why := s.held
		switch {
		case why != "":
		case permits.Tasks(1, s.cost) == 0:
			why = NoPermit
		case left == 0:
			why = NoPlace
		default:
			why = LongLine
		}
		plan.Waits = append(plan.Waits, Wait{s.run.Run, s.stage, why})
	}
	return plan
}

// share is the part of a plan for the rows of one stage of a run.
type share struct {
	run     *Candidate
	granted *int // tasks of the run, at any stage
	stage   release.Stage
	cost    float64 // of a task, in requests
	held    Reason  // why no row is released, whatever the other runs; "": some may be
	probes  []Probe // for which one row is released
	inLine  bool    // only a portion that goes to any class releases rows
	most    int     // tasks that it may have
	tasks   int     // that it has
}

// before reports whether a share gets a portion before one of another run.
func (s *share) before(other *share, anyClass bool) bool {
	switch {
	case s.run == other.run:
		return false // its stages are in their order
	case !anyClass && s.run.Class != other.run.Class:
		return s.run.Class < other.run.Class
	case !anyClass && *s.granted != *other.granted:
		return *s.granted < *other.granted
	}
	return s.run.ServedAt.Before(other.run.ServedAt)
}

// Probe identifies a block, or the end of a pause, of which one row finds out whether requests are
// accepted.
type Probe struct {
	Operation string
	// Every is how often at most a row is released for it.
	Every time.Duration
}

const (
	// probeEvery is that of a blocked operation: a row may need no request in the end.
	probeEvery = 30 * time.Second
	// trialEvery is that of a row that tries after a pause. The next one tries soon, since other
	// rows wait for it, and a permit is for one of them.
	trialEvery = time.Second
)

// holding returns which obstacle holds the work. A block is none of them: see [Round.probes].
func holding(obstacles []obstacle.Obstacle, work obstacle.Work) Reason {
	for _, o := range obstacles {
		if o.Kind != obstacle.OperationBlocked && o.Holds(work) {
			return Reason(o.Kind)
		}
	}
	return ""
}

// probes returns the probes for which one row may be released, and no other row before; nil: there
// are none. If it is too early for one of them, no row is released: before a probe gets a permit it
// would be back without a request.
func (r Round) probes(work obstacle.Work) (early Reason, all []Probe) {
	add := func(p Probe, next time.Time) {
		all = append(all, p)
		if r.Now.Sub(r.Probed[p]) < p.Every || r.Tenant.Pace.At.Before(next) {
			early = NextProbe
		}
	}
	for _, b := range r.Tenant.Pace.Blocks {
		if (obstacle.Obstacle{Kind: obstacle.OperationBlocked, Operation: b.Operation}).Holds(work) {
			add(Probe{b.Operation, probeEvery}, b.NextProbe)
		}
	}
	for _, t := range r.Tenant.Pace.Trials {
		paused := obstacle.Obstacle{Kind: obstacle.OperationPaused, Operation: t.Operation}
		if t.Operation == pace.All {
			paused = obstacle.Obstacle{Kind: obstacle.TenantPaused}
		}
		if paused.Holds(work) {
			add(Probe{t.Operation, trialEvery}, t.Next)
		}
	}
	return early, all
}
