package followup

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"orgops/internal/engine"
	"orgops/internal/ledger"
	"orgops/internal/sweep"
)

// Config configures a [FollowUp].
type Config struct {
	Tenant ledger.Tenant
	Ledger *ledger.Ledger
	States *sweep.States
	Rules  sweep.Rules
	Logger *slog.Logger // nil: none
}

// FollowUp submits the runs that follow the sweeps of a tenant. Its methods may be called
// by several goroutines.
type FollowUp struct {
	cfg Config
	// verifyAfter is how long after a commit Redis cannot lose it any more.
	verifyAfter time.Duration
}

// New returns the follow-up of a tenant's sweeps.
func New(cfg Config) *FollowUp {
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	return &FollowUp{cfg: cfg, verifyAfter: 2 * time.Second}
}

// format is the form of the rows of these runs.
const format = "jsonl"

// digest returns the digest of a run that is submitted for a reason.
func digest(reason string) string {
	return fmt.Sprintf("%x", sha256.Sum256([]byte("follow-up\x00"+reason)))
}

// committed reports whether a run exists and is committed, or cancelled. The error is a
// [ledger.MismatchError] if another run has the id.
func (f *FollowUp) committed(ctx context.Context, n ledger.NewRun) (bool, error) {
	run, err := f.cfg.Ledger.Get(ctx, n.ID)
	if errors.Is(err, ledger.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if err := n.Compare(run); err != nil {
		return false, fmt.Errorf("%w: this id is derived: delete the run that has it", err)
	}
	return run.Cancelled || !run.Staged() && !run.Growing, nil
}

// submission is a run that is being submitted. It is created with its first row.
type submission struct {
	ledger      *ledger.Ledger
	run         ledger.NewRun
	stager      *ledger.Stager // nil: there is no row yet
	verifyAfter time.Duration
}

func (f *FollowUp) submission(n ledger.NewRun) *submission {
	return &submission{ledger: f.cfg.Ledger, run: n, verifyAfter: f.verifyAfter}
}

// add adds a row that is due at a time; the zero time is at once. Rows of a former attempt
// that was interrupted are replaced.
func (s *submission) add(ctx context.Context, content []byte, due time.Time) error {
	return own(s.addRow(ctx, content, due))
}

func (s *submission) addRow(ctx context.Context, content []byte, due time.Time) error {
	if s.stager == nil {
		run, _, err := s.ledger.Create(ctx, s.run)
		if err != nil {
			return err
		}
		if s.stager, err = s.ledger.NewStager(ctx, run); err != nil {
			return err
		}
	}
	return s.stager.AddDue(ctx, content, due)
}

// submit commits the run, and stages and commits again what Redis has lost of it since.
// Without a row there is no run: one that a former attempt has staged is deleted.
func (s *submission) submit(ctx context.Context) error {
	if s.stager == nil {
		return own(s.discard(ctx))
	}
	if _, err := s.stager.Commit(ctx); err != nil {
		return own(err)
	}
	if err := engine.Sleep(ctx, s.verifyAfter); err != nil {
		return err
	}
	return own(s.stager.Verify(ctx))
}

// discard deletes what a former attempt has staged. A run that another worker is submitting
// now stays: that worker's evaluation has found rows.
func (s *submission) discard(ctx context.Context) error {
	run, err := s.ledger.Get(ctx, s.run.ID)
	if errors.Is(err, ledger.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	deleted, err := s.ledger.DeleteStaged(ctx, run)
	if err == nil && !deleted {
		err = fmt.Errorf("run %s: another worker submits it", run.ID)
	}
	return err
}

// own returns the error of submitting a run. The caller of [FollowUp.Ended] must not take
// the loss of that run for the deletion of the sweep's.
func own(err error) error {
	if errors.Is(err, ledger.ErrNotFound) || errors.Is(err, ledger.ErrOpen) {
		return fmt.Errorf("another worker has changed the run, or redis has lost it: %v", err) //nolint:errorlint // see above
	}
	return err
}

// maxID is the largest length of a run's id.
const maxID = 64

// derivedID returns the id of a run that follows another one: the other's id between
// prefix and suffix, or its hash if that is too long.
func derivedID(prefix string, of ledger.RunID, suffix string) ledger.RunID {
	id := fmt.Sprintf("%s-%s-%s", prefix, of, suffix)
	if len(id) <= maxID {
		return ledger.RunID(id)
	}
	sum := sha256.Sum256([]byte(of))
	return ledger.RunID(fmt.Sprintf("%s-%x-%s", prefix, sum[:12], suffix))
}
