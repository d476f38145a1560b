package scan

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"orgops/apiclient"
	"orgops/internal/ledger"
)

// Ledger is the part of [ledger.Ledger] that a scanner uses.
type Ledger interface {
	Now(ctx context.Context) (time.Time, error)
	OpenRuns(ctx context.Context, t ledger.Tenant) ([]ledger.Run, error)
	Get(ctx context.Context, run ledger.RunID) (ledger.Run, error)
	ScanCursor(ctx context.Context, run ledger.Run) (ledger.Scan, []byte, error)
	AddStep(ctx context.Context, run ledger.Run, s ledger.ScanStep) (made bool, err error)
	NoteScan(ctx context.Context, run ledger.Run, note string, next time.Time) error
	CommitFound(ctx context.Context, run ledger.Run) (now ledger.Run, left bool, err error)
}

// Config configures a [Scanner].
type Config struct {
	Tenant ledger.Tenant
	Ledger Ledger
	API    API
	// Requests are the searches, by the kind of the run. Runs of other kinds wait
	// for a scanner of a newer worker.
	Requests map[ledger.Kind]Request
	// Active reports whether this worker has to scan: its dispatcher is the tenant's active
	// one.
	Active func() bool
	// Block blocks an API operation ("*": all) for the fleet, apart from a probe now and
	// then. nil: nothing is blocked.
	Block func(ctx context.Context, operation, reason string) error
	// Timeout bounds the requests of a step; 0: 5 minutes. The answers received by
	// then are stored.
	Timeout time.Duration
	Logger  *slog.Logger // nil: none
}

const (
	defaultTimeout = 5 * time.Minute
	// inactiveEvery is how often a scanner that is not to scan finds out whether it is. It
	// needs no command of Redis.
	inactiveEvery = time.Second
	// afterError is the wait after an error of Redis.
	afterError = time.Second
	// listEvery is how often the tenant's runs are read without a wake, and wakenEvery the
	// shortest time after which they are read again with one. Both are longer if the reading
	// takes long: it takes at most 1 in listShare of the time, or 1 in wakenShare.
	listEvery  = 10 * time.Second
	listShare  = 500
	wakenEvery = time.Second
	wakenShare = 50
	// maxWait is the longest time that a step can wait. One that is due later than that was
	// noted while Redis' clock was ahead, and counts as due.
	maxWait = 2 * time.Hour
	// maxBack is how far Redis' clock may go back before the scanner forgets the times that
	// it has from it.
	maxBack = time.Second
)

// Scanner makes the steps of a tenant's scans while it is active. Apart from Wake its
// methods are for one goroutine.
type Scanner struct {
	cfg  Config
	wake chan struct{}
	// askEvery is how long the ledger's last answer counts: requests are sent at most that
	// long after their run was paused or cancelled.
	askEvery time.Duration

	jobs     map[ledger.RunID]*job
	woken    bool
	listedAt time.Time // in Redis' time; zero: never
	listTook time.Duration
	now      time.Time // Redis' time at the process's time nowAt
	nowAt    time.Time
	turn     int64
}

// job is a run that is scanned.
type job struct {
	run ledger.Run
	// stopped reports whether no step may be made: the run is paused, or its
	// scan has ended.
	stopped bool
	due     time.Time // of the next step
	// commitAt is when found rows are to be committed.
	commitAt time.Time
	// committedAt is when rows were last committed.
	committedAt time.Time
	turn        int64 // of the last step
	// warm reports whether this scanner has made the step before the next one: its attempt
	// is not counted in advance.
	warm bool
}

// New returns a scanner.
func New(cfg Config) *Scanner {
	cfg.Timeout = cmp.Or(cfg.Timeout, defaultTimeout)
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler)).With("tenant", cfg.Tenant)
	return &Scanner{cfg: cfg, wake: make(chan struct{}, 1), askEvery: time.Second, jobs: map[ledger.RunID]*job{}}
}

// Wake has the scanner read the tenant's runs, for example since one was created or
// resumed. If a wake is lost, they are read within ten seconds.
func (s *Scanner) Wake() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Run scans until ctx ends.
func (s *Scanner) Run(ctx context.Context) {
	for ctx.Err() == nil {
		s.sleep(ctx, s.Round(ctx))
	}
}

// sleep waits for the next round, or until the scanner is woken.
func (s *Scanner) sleep(ctx context.Context, d time.Duration) {
	wake := s.wake
	if s.woken {
		wake = nil // the round was in vain, or came too early
	}
	select {
	case <-ctx.Done():
	case <-time.After(d):
	case <-wake:
		s.woken = true
	}
}

// Round makes one step that is due, or commits rows that were found, and returns when to
// call it again.
func (s *Scanner) Round(ctx context.Context) (after time.Duration) {
	if !s.cfg.Active() {
		s.forget()
		return inactiveEvery
	}
	if err := s.refresh(ctx); err != nil {
		if ctx.Err() == nil {
			s.cfg.Logger.WarnContext(ctx, "scanner failed", "error", err)
		}
		return afterError
	}
	j, at := s.next()
	switch {
	case at.After(s.now):
		return max(min(s.untilList(), at.Sub(s.now)), 0)
	case !j.commitAt.After(s.now):
		s.commit(ctx, j)
	default:
		s.turn++
		j.turn = s.turn
		s.step(ctx, j)
	}
	return 0
}

// forget has the scanner read all runs again.
func (s *Scanner) forget() {
	clear(s.jobs)
	s.listedAt, s.woken = time.Time{}, false
}

// redisNow returns Redis' time.
func (s *Scanner) redisNow() time.Time { return s.now.Add(time.Since(s.nowAt)) }

// refresh reads Redis' time, and the tenant's runs if that is due.
func (s *Scanner) refresh(ctx context.Context) error {
	now, err := s.cfg.Ledger.Now(ctx)
	if err != nil {
		return err
	}
	if now.Before(s.now.Add(-maxBack)) {
		s.forget()
	}
	s.now, s.nowAt = now, time.Now()
	if s.untilList() > 0 {
		return nil
	}
	return s.list(ctx)
}

// untilList returns when the tenant's runs are to be read.
func (s *Scanner) untilList() time.Duration {
	if s.listedAt.IsZero() || s.listedAt.After(s.now) {
		return 0
	}
	every := max(listEvery, listShare*s.listTook)
	if s.woken {
		every = max(wakenEvery, wakenShare*s.listTook)
	}
	return every - s.now.Sub(s.listedAt)
}

// list reads the tenant's runs. If some cannot be read, the scanner continues with
// their last state.
func (s *Scanner) list(ctx context.Context) error {
	begun := time.Now()
	runs, err := s.cfg.Ledger.OpenRuns(ctx, s.cfg.Tenant)
	if err != nil && len(runs) == 0 {
		return err
	}
	if err != nil {
		s.cfg.Logger.WarnContext(ctx, "some runs cannot be read", "error", err)
	}
	s.listedAt, s.listTook, s.woken = s.now, time.Since(begun), false
	found := map[ledger.RunID]bool{}
	for _, r := range runs {
		if r.Scan != nil && r.Growing && !r.Cancelled {
			found[r.ID] = true
			s.add(ctx, r)
		}
	}
	for id := range s.jobs {
		if !found[id] && err == nil {
			delete(s.jobs, id)
		}
	}
	return nil
}

// add adds a run, or updates it.
func (s *Scanner) add(ctx context.Context, r ledger.Run) {
	j := s.jobs[r.ID]
	if j == nil || j.run.Incarnation != r.Incarnation {
		if s.cfg.Requests[r.Kind] == nil {
			s.cfg.Logger.WarnContext(ctx, "scan is unknown: a newer worker is needed", "run", r.ID, "kind", r.Kind)
		}
		j = &job{commitAt: s.now} // the scanner before may have left rows
		s.jobs[r.ID] = j
	}
	j.run = r
	j.stopped = r.Scan.Ended || isStopped(r) || s.cfg.Requests[r.Kind] == nil
	j.due = r.NotBefore
	if next := r.Scan.NextAt; next.After(j.due) && next.Before(s.now.Add(maxWait)) {
		j.due = next
	}
}

// isStopped reports whether no step may be made of a run.
func isStopped(r ledger.Run) bool {
	return r.Paused || r.Cancelled
}

// never is the time of work that is not due.
var never = time.Unix(1<<40, 0)

// next returns the job with the work that is due first, and when; of those whose time has come,
// the one whose last step is longest ago.
func (s *Scanner) next() (next *job, at time.Time) {
	at = never
	for _, j := range s.jobs {
		t := j.commitAt
		if !j.stopped && j.due.Before(t) {
			t = j.due
		}
		if t.Before(s.now) {
			t = s.now
		}
		if d := t.Compare(at); d < 0 || d == 0 && next != nil && j.before(next) {
			next, at = j, t
		}
	}
	return next, at
}

// before reports whether the job is served before another one that is due too.
func (j *job) before(other *job) bool {
	return cmp.Or(cmp.Compare(j.turn, other.turn), cmp.Compare(j.run.ID, other.run.ID)) < 0
}

const (
	// commitEvery is how often the found rows of a run are committed. The ledger has them
	// wait for others, so that a run does not get too many segments.
	commitEvery = time.Second
	// commitAgain is when a commit that failed is repeated.
	commitAgain = 5 * time.Second
)

// commit makes rows that were found available to dispatchers. After the last step it is
// repeated until the run is committed finally.
func (s *Scanner) commit(ctx context.Context, j *job) {
	run, left, err := s.cfg.Ledger.CommitFound(ctx, j.run)
	j.committedAt = s.now
	switch {
	case errors.Is(err, ledger.ErrNotFound):
		delete(s.jobs, j.run.ID)
	case err != nil:
		if ctx.Err() == nil {
			s.cfg.Logger.WarnContext(ctx, "found rows not committed", "run", j.run.ID, "error", err)
		}
		j.commitAt = s.now.Add(commitAgain)
	case !run.Growing:
		s.cfg.Logger.InfoContext(ctx, "scan ended", "run", run.ID, "kind", run.Kind, "rows", run.Rows)
		delete(s.jobs, run.ID)
	default:
		j.run, j.commitAt = run, never
		if left {
			j.commitAt = s.now.Add(commitEvery)
		}
	}
}

// API is the part of [apiclient.Client] that a scan needs.
type API interface {
	OrganizationsPage(ctx context.Context, from string) ([]apiclient.Listed[apiclient.Organization], string, error)
	DiscoveryDomainsPage(ctx context.Context,
		organization, from string) ([]apiclient.Listed[apiclient.DiscoveryDomain], string, error)
}
