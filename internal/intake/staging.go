package intake

import (
	"context"
	"fmt"

	"orgops/internal/activity"
	"orgops/internal/ledger"
	"orgops/tasks"
)

// staging stages rows. It keeps the first of them until they fill a segment, or all have been
// added: a small input with a bad row leaves no trace in Redis.
type staging struct {
	intake Intake
	tenant ledger.Tenant
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

func (i Intake) newStaging(t ledger.Tenant, run ledger.RunID, kind ledger.Kind) *staging {
	return &staging{intake: i, tenant: t, id: run, requests: newRequests(string(kind), 0)}
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
	if s.full || (s.stager != nil && !s.room.holds(s.rows)) {
		s.full = true
		return nil
	}
	if s.stager != nil {
		return s.stage(ctx, r)
	}
	s.first = append(s.first, r)
	s.size += len(r.content)
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
	s.room, err = s.intake.room(ctx, s.tenant, s.id, s.rows)
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
	if !s.complete && s.intake.Admit != nil {
		if err := s.intake.Admit(ctx, s.id, s.rows); err != nil {
			return err
		}
	}
	if _, err = s.stager.Commit(ctx); err == nil && !s.complete {
		s.intake.committed()
		what := fmt.Sprintf("%s, rows: %d", s.requests.kind.Name, s.rows)
		s.intake.By.Record(ctx, activity.OfRun(s.tenant, s.id, activity.Submitted, what))
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

// Submitted is the result of a submission.
type Submitted struct {
	Found
	// Run is the run as it was found, or created without rows.
	Run ledger.Run `json:"-"`
	// Created says that there was no run of that id; a retry does not set it.
	Created bool  `json:"-"`
	Tasks   int64 `json:"tasks"` // requests that change something, apart from retries
	Settled int64 `json:"-"`     // rows of a run that existed that are settled
}

// submitted returns the numbers of rows and of requests.
func (s *staging) submitted(run ledger.Run) Submitted {
	sub := Submitted{Found: Found{Rows: s.rows}, Run: run, Tasks: s.requests.changes}
	if s.complete {
		sub.Settled = run.Settled()
		sub.Tasks = min(sub.Tasks, run.Total()-run.Settled())
	}
	return sub
}
