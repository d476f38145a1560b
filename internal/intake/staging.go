package intake

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"orgops/internal/engine"
	"orgops/internal/ledger"
	"orgops/internal/redisconn"
	"orgops/tasks"
)

// create creates a run, or returns the one that exists under its id, with exact counts.
func (i Intake) create(ctx context.Context, n ledger.NewRun) (run ledger.Run, created bool, err error) {
	if i.Traceparent != nil {
		n.Trace = i.Traceparent(ctx)
	}
	run, created, err = i.Ledger.Core().Create(ctx, n)
	if err != nil {
		return ledger.Run{}, false, err
	}
	run, err = i.Ledger.Exact(ctx, run)
	return run, created, err
}

// ErrCancelled says that rows were to be added to a run that was cancelled.
var ErrCancelled = errors.New("the run was cancelled: no more of its rows can be submitted")

// stager returns a stager for the rows of a run. complete says that all of them are
// committed: it then compares rows with these, and stores nothing. The error is
// [ErrCancelled] if the run was cancelled before all of its rows were stored.
func (i Intake) stager(ctx context.Context, run ledger.Run) (stager *ledger.Stager, complete bool, err error) {
	core, cancelled := i.Ledger.Core(), !run.CancelledAt.IsZero()
	header, err := core.Get(ctx, run.ID)
	if err != nil {
		return nil, false, err
	}
	if run.Sealed() && (!cancelled || run.Total() > 0) {
		progress, err := core.Sync(ctx, header.ID)
		if err != nil {
			return nil, false, err
		}
		if progress.Run.Ended() || len(progress.Missing) == 0 {
			stager, err = core.NewComparer(ctx, header)
			return stager, true, err
		}
	}
	if cancelled {
		return nil, false, fmt.Errorf("run %s: %w", run.ID, ErrCancelled)
	}
	stager, err = core.NewStager(ctx, header)
	if err == nil && run.Kind == tasks.TypeRemove {
		stager.Group(tasks.MaxClients, OrganizationOf)
	}
	return stager, false, err
}

// staging stages rows. It keeps the first of them until they fill a segment, or all have been
// added: a small input with a bad row leaves no trace in Redis.
type staging struct {
	intake Intake
	id     ledger.RunID // of the run
	// begin creates the run, and returns a stager for it as [Intake.stager] does.
	begin  func(context.Context) (stager *ledger.Stager, complete bool, err error)
	stager *ledger.Stager // nil: no run was created yet
	// complete says that the run was committed before: its rows are compared with these.
	complete bool
	// room is how many rows fit into Redis. It is read before the first row is staged, and
	// before the commit.
	room  room
	full  bool // more rows were added than fit: they are only counted
	first []firstRow
	size  int // of the contents of these, in bytes
	rows  int64
	// requests of the rows that become work.
	requests *requests
}

// firstRow is a row that was added before the run was created.
type firstRow struct {
	content []byte
	result  *ledger.Result // nil: it becomes work
}

// firstBytes bounds the memory for the first rows.
const firstBytes = 2 << 20

func (i Intake) newStaging(run ledger.RunID, kind ledger.Kind) *staging {
	return &staging{intake: i, id: run, requests: newRequests(string(kind), tasks.MaxClients)}
}

// add adds a row that becomes work.
func (s *staging) add(ctx context.Context, row tasks.Row) error {
	content, err := row.Content()
	if err != nil {
		return err
	}
	s.requests.add(s.rows, row)
	return s.addContent(ctx, firstRow{content: content})
}

// addSettled adds a row that becomes no work.
func (s *staging) addSettled(ctx context.Context, content []byte, r ledger.Result) error {
	return s.addContent(ctx, firstRow{content: content, result: &r})
}

func (s *staging) addContent(ctx context.Context, r firstRow) error {
	s.rows++
	if s.full || s.stager != nil && !s.room.holds(s.rows) {
		s.full = true
		return nil
	}
	if s.stager != nil {
		return s.stage(ctx, r)
	}
	s.first, s.size = append(s.first, r), s.size+len(r.content)
	if len(s.first) < ledger.SegmentRows && s.size < firstBytes {
		return nil
	}
	return s.start(ctx)
}

// start creates the run and stages the first rows, if they fit.
func (s *staging) start(ctx context.Context) (err error) {
	if s.stager != nil || s.full {
		return nil
	}
	if err := s.readRoom(ctx); err != nil || s.full {
		return err
	}
	if s.stager, s.complete, err = s.begin(ctx); err != nil {
		return err
	}
	for _, r := range s.first {
		if err := s.stage(ctx, r); err != nil {
			return err
		}
	}
	s.first = nil
	return nil
}

// readRoom reads whether the rows that were added fit into Redis.
func (s *staging) readRoom(ctx context.Context) (err error) {
	s.room, err = s.intake.room(ctx, s.id, s.rows)
	s.full = err == nil && !s.room.holds(s.rows)
	return err
}

func (s *staging) stage(ctx context.Context, r firstRow) error {
	if r.result == nil {
		return s.stager.Add(ctx, r.content)
	}
	return s.stager.AddSettled(ctx, r.content, *r.result)
}

// commit commits the run. The error is a [RoomError] if its rows do not fit into Redis, together
// with rows that others have staged meanwhile.
func (s *staging) commit(ctx context.Context) (err error) {
	switch {
	case s.full:
	case s.stager == nil:
		err = s.start(ctx)
	default:
		err = s.readRoom(ctx)
	}
	if err == nil && s.full {
		err = s.room.refusal(s.rows)
	}
	if err != nil {
		return err
	}
	if _, err = s.stager.Commit(ctx); err == nil && !s.complete {
		s.intake.committed()
	}
	return err
}

// verify reads the run back that was committed, if its Redis may lose the writes of its last
// second.
func (s *staging) verify(ctx context.Context) error {
	if s.complete {
		return nil
	}
	if may, err := s.intake.mayBeLost(ctx); !may {
		return err
	}
	return s.stager.Verify(ctx)
}

// Summary has the numbers of a submission.
type Summary struct {
	Rows    int64 // all of the run
	Tasks   int64 // requests that change something, apart from retries
	Settled int64 // rows of a run that existed that are settled
}

// summary returns the numbers of rows and of requests.
func (s *staging) summary(run ledger.Run) Summary {
	sum := Summary{Rows: s.rows, Tasks: s.requests.changes}
	if s.complete {
		sum.Settled, sum.Tasks = run.Settled(), min(sum.Tasks, run.Total()-run.Settled())
	}
	return sum
}

// OrganizationOf returns the organization of a row's content.
func OrganizationOf(content []byte) string {
	var r struct {
		OrganizationID string `json:"organization_id"`
	}
	if json.Unmarshal(content, &r) != nil {
		return ""
	}
	return r.OrganizationID
}

// whyNot returns the error of staging rows: [ErrCancelled] if the run was cancelled
// meanwhile, which takes no more rows.
func (i Intake) whyNot(ctx context.Context, run ledger.RunID, err error) error {
	if _, refused := errors.AsType[*ledger.MismatchError](err); !refused {
		return err
	}
	now, failed := i.Ledger.Core().Get(ctx, run)
	if failed == nil && now.Cancelled {
		return fmt.Errorf("run %s: %w", run, ErrCancelled)
	}
	return err
}

// mayBeLost reports whether Redis may have lost a commit that was made before the call. If so
// it returns when Redis cannot lose it any more.
func (i Intake) mayBeLost(ctx context.Context) (bool, error) {
	if !mayLose(ctx, i.Redis) {
		return false, nil
	}
	err := engine.Sleep(ctx, cmp.Or(i.VerifyAfter, defaultVerifyAfter))
	return err == nil, err
}

// mayLose reports whether Redis may come back without its last writes and with others:
// from a file that it appends to, or as a replica that takes over.
func mayLose(ctx context.Context, rdb redis.UniversalClient) bool {
	if rdb == nil {
		return false
	}
	info, err := rdb.Info(ctx).Result()
	if err != nil {
		_, answered := errors.AsType[redis.Error](err)
		return !answered || redis.IsPermissionError(err)
	}
	replicas := redisconn.InfoValue(info, "connected_slaves")
	return redisconn.InfoValue(info, "aof_enabled") == "1" || replicas != "" && replicas != "0" || redisconn.InfoValue(info, "cluster_enabled") == "1"
}
