package followup

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"time"

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
type FollowUp struct{ cfg Config }

// New returns the follow-up of a tenant's sweeps.
func New(cfg Config) *FollowUp {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	cfg.Logger = cfg.Logger.With("tenant", cfg.Tenant)
	return &FollowUp{cfg}
}

// format is the form of the rows of these runs.
const format = "jsonl"

// digest returns the digest of a run that is submitted for a reason.
func digest(reason string) string {
	sum := sha256.Sum256([]byte("follow-up\x00" + reason))
	return hex.EncodeToString(sum[:])
}

// committed reports whether a run exists and is committed. The error is a
// [ledger.MismatchError] if a run of another kind or tenant has the id.
func (f *FollowUp) committed(ctx context.Context, n ledger.NewRun) (bool, error) {
	run, err := f.cfg.Ledger.Get(ctx, n.ID)
	switch {
	case errors.Is(err, ledger.ErrNotFound):
		return false, nil
	case err != nil:
		return false, err
	case run.Tenant != n.Tenant:
		return false, &ledger.MismatchError{Run: n.ID, Member: "tenant", Have: string(run.Tenant), Want: string(n.Tenant)}
	case run.Kind != n.Kind:
		return false, &ledger.MismatchError{Run: n.ID, Member: "kind", Have: string(run.Kind), Want: string(n.Kind)}
	}
	return !run.Staged(), nil
}

// submission is a run that is being submitted. It is created with its first row.
type submission struct {
	ledger *ledger.Ledger
	run    ledger.NewRun
	stager *ledger.Stager // nil: there is no row yet
}

// add adds a row that is due at a time; the zero time is at once. Rows of a former attempt
// that was interrupted are replaced.
func (s *submission) add(ctx context.Context, content []byte, due time.Time) error {
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

// commit commits the run. Without a row there is none: one that a former attempt has staged
// is deleted.
func (s *submission) commit(ctx context.Context) error {
	if s.stager != nil {
		_, err := s.stager.Commit(ctx)
		return err
	}
	err := s.ledger.Delete(ctx, s.run.ID)
	if errors.Is(err, ledger.ErrNotFound) {
		return nil
	}
	return err
}

// verifyAfter is how long after a commit Redis cannot lose it any more.
const verifyAfter = 2 * time.Second

// verify submits again what Redis has lost of the run since its commit.
func (s *submission) verify(ctx context.Context) error {
	if s.stager == nil {
		return nil
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(verifyAfter):
	}
	return s.stager.Verify(ctx)
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
