package scan

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"orgops/apiclient"
	"orgops/internal/engine"
	"orgops/internal/ledger"
	"orgops/tasks/handlers"
)

const (
	// supersededAgain is when a scanner tries the next step after another one has made its
	// step, or the run takes no more steps.
	supersededAgain = time.Second
	// unreadableAgain is when a scan is tried again whose state cannot be read.
	unreadableAgain = time.Minute
	// lastWrite bounds a write that outlasts the context of its step.
	lastWrite = 2 * time.Second
)

// step makes the next step of a run.
func (s *Scanner) step(ctx context.Context, j *job) {
	at, err := s.position(ctx, j)
	if err != nil {
		s.postpone(ctx, j, err)
		return
	}
	if at.ended {
		j.stopped, j.commitAt = true, s.now
		return
	}
	attempts := at.cursor.Attempts
	if attempts >= engine.MaxAttempts {
		s.end(ctx, j, at,
			fmt.Sprintf("given up after %d attempts; the last ended without an answer (its worker died, or its time was up)",
				attempts))
		return
	}
	if !j.warm {
		// In advance: a step that takes its worker down with it ends too.
		if at, err = s.count(ctx, j, at, 1); err != nil {
			s.postpone(ctx, j, err)
			return
		}
	}
	j.warm = false
	o, err := s.read(ctx, j, at, attempts >= putOffAfter)
	if err == nil {
		_, err = s.store(ctx, j, at, func(position) outcome { return o })
	}
	if err != nil {
		s.failed(ctx, j, at, attempts, err)
		return
	}
	j.warm, j.due = true, time.Time{}
}

// position reads the position of a run's scan.
func (s *Scanner) position(ctx context.Context, j *job) (position, error) {
	scan, cursor, err := s.cfg.Ledger.ScanCursor(ctx, j.run)
	if err != nil {
		return position{}, err
	}
	at, err := readPosition(scan, cursor)
	if err != nil && engine.Settles(engine.Decide(err).Outcome) {
		err = &engine.Consequence{Outcome: engine.Transient, Reason: err.Error(), After: unreadableAgain}
	}
	return at, err
}

// read makes the requests of a step.
func (s *Scanner) read(ctx context.Context, j *job, at position, putOff bool) (outcome, error) {
	r := &reader{scanner: s, run: j.run, request: s.cfg.Requests[j.run.Kind]}
	ctx, cancel := context.WithTimeout(handlers.OfScan(ctx, r.request.ofSweep()), s.cfg.Timeout)
	defer cancel()
	ctx = apiclient.WithCorrelationID(ctx, fmt.Sprintf("%s:scan:%d", j.run.ID, at.number))
	return r.read(ctx, at, putOff)
}

// maxStores bounds how often a step is stored again after others counted attempts.
const maxStores = 8

// store stores a step that begins at a position, and returns the number under which it is
// stored. of returns its outcome. If another scanner has only counted an attempt meanwhile,
// it is still the next step: two scanners that count before each attempt would keep each
// other from any step otherwise.
func (s *Scanner) store(ctx context.Context, j *job, at position, of func(position) outcome) (position, error) {
	for range maxStores {
		o := of(at)
		step, err := o.step(at)
		if err != nil {
			return at, err
		}
		made, err := s.cfg.Ledger.AddStep(ctx, j.run, step)
		if err != nil {
			return at, err
		}
		if made {
			s.stored(ctx, j, step, o)
			return at, nil
		}
		now, err := s.position(ctx, j)
		if err != nil {
			return at, err
		}
		if now.number == at.number || !now.equals(at) {
			break
		}
		at = now
	}
	return at, engine.ErrSuperseded // another scanner has made the step, or the run takes no more
}

// stored records that a step was stored.
func (s *Scanner) stored(ctx context.Context, j *job, step ledger.ScanStep, o outcome) {
	switch {
	case step.Last:
		j.stopped, j.commitAt = true, s.now
		s.cfg.Logger.InfoContext(ctx, "scan has found its rows", "run", j.run.ID, "kind", j.run.Kind,
			"organizations_read", o.progress.Read, "organizations_missed", o.progress.Missed, "ended_early", o.progress.Early)
	case len(step.Rows) > 0 && j.commitAt.Equal(never):
		j.commitAt = j.committedAt.Add(commitEvery)
	}
}

// count adds n to the stored attempts of the next step, and returns the position with that.
func (s *Scanner) count(ctx context.Context, j *job, at position, n int) (position, error) {
	if n == 0 {
		return at, nil
	}
	var o outcome
	at, err := s.store(ctx, j, at, func(at position) outcome {
		o = at.counted(max(at.cursor.Attempts+n, 0))
		return o
	})
	if err != nil {
		return at, err
	}
	at.number++
	at.cursor = o.cursor
	return at, nil
}

// failed records the error of the attempt that follows a number of attempts.
func (s *Scanner) failed(ctx context.Context, j *job, at position, attempts int, err error) {
	verdict := engine.Decide(err)
	left := ctx.Err() != nil || verdict.Outcome == engine.Stopping
	switch {
	case verdict.Outcome == engine.Superseded:
		j.due = s.redisNow().Add(supersededAgain)
		return
	case left:
		verdict.Counts = false
	case engine.Settles(verdict.Outcome):
		s.end(ctx, j, at, verdict.Reason)
		return
	case verdict.Counts:
		attempts++
	}
	if attempts >= engine.MaxAttempts {
		s.end(ctx, j, at, fmt.Sprintf("given up after %d attempts: %s", attempts, verdict.Reason))
		return
	}
	detached, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWrite)
	defer cancel()
	if _, notCounted := s.count(detached, j, at, attempts-at.cursor.Attempts); notCounted != nil &&
		!errors.Is(notCounted, engine.ErrSuperseded) {
		s.cfg.Logger.WarnContext(ctx, "attempt of a scan not counted", "run", j.run.ID, "error", notCounted)
	}
	if left {
		return
	}
	if verdict.Counts {
		verdict.After = max(verdict.After, engine.Backoff(attempts-1))
	}
	s.wait(ctx, j, verdict)
}

// postpone records that a step could not begin.
func (s *Scanner) postpone(ctx context.Context, j *job, err error) {
	if ctx.Err() != nil {
		return
	}
	verdict := engine.Decide(err)
	switch {
	case errors.Is(err, ledger.ErrNotFound):
		delete(s.jobs, j.run.ID)
	case verdict.Outcome == engine.Superseded:
		j.due = s.redisNow().Add(supersededAgain)
	default:
		verdict.After = max(verdict.After, afterError)
		s.wait(ctx, j, verdict)
	}
}

// wait has the next step of a run wait, and stores why.
func (s *Scanner) wait(ctx context.Context, j *job, v engine.Consequence) {
	if v.Outcome == engine.Stopped { // until a wake, or the next list
		j.stopped = true
		return
	}
	level := slog.LevelWarn
	if v.Outcome == engine.Paced {
		level = slog.LevelDebug
	}
	s.cfg.Logger.Log(ctx, level, "scan waits", "run", j.run.ID, "outcome", v.Outcome, "reason", v.Reason, "after", v.After)
	if v.Operation != "" && s.cfg.Block != nil {
		if err := s.cfg.Block(ctx, v.Operation, v.Cause); err != nil {
			s.cfg.Logger.WarnContext(ctx, "operation not blocked", "operation", v.Operation, "error", err)
		}
	}
	j.due = s.redisNow().Add(v.After)
	if err := s.cfg.Ledger.NoteScan(ctx, j.run, engine.Clip(string(v.Outcome)+": "+v.Reason, maxReason),
		j.due); err != nil {
		s.cfg.Logger.WarnContext(ctx, "scan's note not stored", "run", j.run.ID, "error", err)
	}
}

// end ends a scan early: the rows that were found stay, and the organizations that were not
// reached are counted.
func (s *Scanner) end(ctx context.Context, j *job, at position, why string) {
	s.cfg.Logger.ErrorContext(ctx, "scan ends early", "run", j.run.ID, "reason", why)
	if _, err := s.store(ctx, j, at, func(at position) outcome { return at.givenUp(why) }); err != nil {
		s.postpone(ctx, j, err)
	}
}
