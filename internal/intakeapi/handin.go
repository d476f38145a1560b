package intakeapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"slices"
	"sync"
	"time"

	"orgops/internal/intake"
	"orgops/internal/runs"
)

// longestAgain is the longest time between two attempts at a submission.
const longestAgain = time.Minute

// errStopped says that the server ended before a job could be begun.
var errStopped = newProblem(http.StatusServiceUnavailable, "store", "The server is shutting down. It resumes this submission after its restart; repeat the request with the same Idempotency-Key to get the run.")

// errBroken says that a job cannot be done, now or later.
var errBroken = errors.New("invalid spooled submission")

// accept takes a job over, and returns it, or the same if that is under way:
// two requests with one key become one run.
func (s *Server) accept(j *job, u *upload) (*job, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if same := s.pending[j.Run]; same != nil {
		if same.Parent != j.Parent || !slices.Equal(same.Outcomes, j.Outcomes) {
			return nil, &runs.MismatchError{Run: j.Run, Member: "content"}
		}
		return same, nil
	}
	if err := u.publish(j); err != nil {
		return nil, err
	}
	s.begin(j)
	return j, nil
}

// start begins a job that is in the spool.
func (s *Server) start(j *job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begin(j)
}

// begin does a job in the background. s.mu is held.
func (s *Server) begin(j *job) {
	s.pending[j.Run] = j
	s.jobs.Go(func() {
		s.do(s.work, j)
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.pending, j.Run)
		// A refusal is answered only now: the same key, sent again, is a new job.
		j.tell(cmp.Or[error](j.refusal, errStopped))
	})
}

// full reports whether the limit of pending submissions is reached.
func (s *Server) full() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.pending) >= s.limits.Pending
}

// do brings a job to its end, whatever is in the way, unless ctx ends before.
// The next server goes on then.
func (s *Server) do(ctx context.Context, j *job) {
	wait := s.limits.Again
	for {
		err := s.attempt(ctx, j)
		switch {
		case err == nil:
			s.forget(ctx, j)
			return
		case ctx.Err() != nil:
			s.log.InfoContext(ctx, "submission left in the spool for the next start", "run", j.Run)
			return
		case errors.Is(err, errBroken):
			s.log.ErrorContext(ctx, "submission rejected and set aside in the spool", "run", j.Run, "caller", j.Caller, "error", err)
			if err := s.spool.setAside(j); err != nil {
				s.log.ErrorContext(ctx, "cannot set submission aside", "run", j.Run, "error", err)
			}
			return
		}
		s.log.WarnContext(ctx, "submission failed, retrying", "run", j.Run, "in", wait, "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
		wait = min(2*wait, longestAgain)
	}
}

func (s *Server) forget(ctx context.Context, j *job) {
	if err := s.spool.remove(j); err != nil {
		s.log.ErrorContext(ctx, "cannot remove submission from the spool", "run", j.Run, "error", err)
	}
}

// attempt hands the job's rows in. It does nothing twice: what an earlier
// attempt has done is left alone.
func (s *Server) attempt(ctx context.Context, j *job) error {
	if err := s.handIns.Acquire(ctx, 1); err != nil {
		return err
	}
	release := sync.OnceFunc(func() { s.handIns.Release(1) })
	defer release()
	if gone, err := s.gone(ctx, j); gone || err != nil {
		return err
	}
	if s.cfg.Trace != nil {
		ctx = s.cfg.Trace(ctx, j.Traceparent)
	}
	hand := s.handIn
	if j.Parent != "" {
		hand = s.handInAgain
	}
	taker := s.cfg.Intake
	taker.Committed = release // others need not wait until it is read back
	err := hand(ctx, taker, j)
	_, differs := errors.AsType[*runs.MismatchError](err)
	switch {
	case errors.Is(err, runs.ErrCancelled):
		return nil // while it was submitted; no more of it is wanted
	case differs, errors.Is(err, intake.ErrChanged):
		return fmt.Errorf("%w: %w", errBroken, err)
	}
	return err
}

func (s *Server) handIn(ctx context.Context, taker intake.Intake, j *job) error {
	in, err := s.input(ctx, j)
	if err != nil {
		return err
	}
	checked, err := s.check(ctx, in)
	defer func() { _ = checked.Close() }()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case spoilt(err):
		return fmt.Errorf("%w: the stored rows are no longer valid: %w", errBroken, err)
	case err != nil:
		return err
	case checked.Digest != j.Digest:
		return fmt.Errorf("%w: the stored rows differ from the received rows", errBroken)
	}
	run, _, err := taker.Begin(ctx, in, checked, j.asRun())
	if err != nil || run.Ended() {
		return err
	}
	sum, err := taker.HandIn(ctx, in, checked, run)
	if err != nil {
		return err
	}
	s.log.InfoContext(ctx, "rows submitted", "run", run.ID, "caller", run.Caller, "rows", sum.Rows, "tasks", sum.Tasks, "settled_before", sum.Settled)
	return nil
}

// spoilt says whether the error is one of the rows, not of reading them.
func spoilt(err error) bool {
	_, rows := errors.AsType[*intake.BadRows](err)
	_, header := errors.AsType[*intake.HeaderError](err)
	return rows || header || errors.Is(err, intake.ErrNoRows) || errors.Is(err, fs.ErrNotExist)
}

// longestTraceparent bounds the header traceparent, whose defined length is 55 bytes.
const longestTraceparent = 128

// traceparentOf is the request's header, empty where it is none.
func traceparentOf(r *http.Request) string {
	value := r.Header.Get("Traceparent")
	if len(value) > longestTraceparent {
		return ""
	}
	return value
}

// gone says whether the job's run was so long ago that Redis has forgotten it.
// It must not be made again.
func (s *Server) gone(ctx context.Context, j *job) (bool, error) {
	_, err := s.cfg.Ledger.Get(ctx, j.Run)
	if errors.Is(err, runs.ErrNotFound) {
		return time.Since(j.Received) > runs.Retention, nil
	}
	return false, err
}

// input is what the job's rows are to be taken for.
func (s *Server) input(ctx context.Context, j *job) (intake.Input, error) {
	kind, known := kindOf(j.Kind)
	if !known {
		return intake.Input{}, fmt.Errorf("%w: unknown kind %s", errBroken, shown(j.Kind))
	}
	return intake.Input{
		Name: "body", Kind: kind, Ignore: j.Ignore, SkipInvalid: j.SkipInvalid,
		Open: func() (io.ReadCloser, error) {
			f, err := s.spool.rows(j.Rows)
			return endingReader{f, ctx}, err
		},
	}, nil
}

// endingReader reads until ctx ends.
type endingReader struct {
	io.ReadCloser
	ctx context.Context
}

func (r endingReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.ReadCloser.Read(p)
}

// check reads the whole input. Few are checked at a time.
func (s *Server) check(ctx context.Context, in intake.Input) (intake.Checked, error) {
	if err := s.checks.Acquire(ctx, 1); err != nil {
		return intake.Checked{}, err
	}
	defer s.checks.Release(1)
	return in.Check()
}

// asRun is what the run is to be.
func (j *job) asRun() intake.Run {
	return intake.Run{ID: j.Run, Tenant: j.Tenant, Label: j.Label, Caller: j.Caller, GiveUp: j.GiveUp, NotBefore: j.NotBefore}
}

// tell says to whoever waits that the job's run is there, or why not. Only the
// first time counts.
func (j *job) tell(err error) {
	j.once.Do(func() {
		j.err = err
		close(j.begun)
	})
}
