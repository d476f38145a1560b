package followup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"orgops/internal/engine"
	"orgops/internal/engine/kinds"
	"orgops/internal/ledger"
	"orgops/internal/sweep"
)

// actionsKeptFor is how long a run of actions is stored after its end, as long as the run of
// its sweep.
const actionsKeptFor = 7 * 24 * time.Hour

// Ended evaluates a sweep whose run has ended, and submits its actions. Runs of other kinds
// need nothing. It may be repeated, also by two workers at once: a sweep whose actions are
// committed is not evaluated again.
//
// A sweep whose run is deleted before it is evaluated never is: the next sweep decides on
// its domains. A run of actions that was staged until then remains, and can be deleted.
func (f *FollowUp) Ended(ctx context.Context, run ledger.Run) error {
	if run.Kind != kinds.Recheck || run.Scan == nil || run.Cancelled {
		return nil
	}
	var progress sweep.Progress
	if err := json.Unmarshal(run.Scan.Progress, &progress); err != nil {
		return fmt.Errorf("sweep %s: read its progress: %w", run.ID, err)
	}
	var err error
	for range attempts {
		if err = f.evaluate(ctx, run, progress); !errors.Is(err, sweep.ErrChanged) {
			break
		}
		if stopped := engine.Sleep(ctx, time.Second); stopped != nil {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("evaluate sweep %s: %w", run.ID, err)
	}
	return nil
}

// attempts is how often a sweep is evaluated while other processes change what it reads.
const attempts = 5

func (f *FollowUp) evaluate(ctx context.Context, run ledger.Run, progress sweep.Progress) error {
	actions := f.actionsOf(run, progress.Tick)
	if done, err := f.done(ctx, actions); err != nil || done {
		return err
	}
	evaluator := sweep.Evaluator{States: f.cfg.States, Rules: f.cfg.Rules, Logger: f.cfg.Logger}
	rows, err := evaluator.Evaluate(ctx, sweep.EndedSweep{Run: string(run.ID), Progress: progress})
	if err != nil {
		return err
	}
	s := f.submission(actions)
	for _, row := range rows {
		content, err := json.Marshal(row)
		if err != nil {
			return fmt.Errorf("action on domain %s: %w", row.DiscoveryDomainID, err)
		}
		if err := s.add(ctx, content, time.Time{}); err != nil {
			return err
		}
	}
	return s.submit(ctx)
}

// done reports whether the run of a sweep's actions is committed. Another worker may have
// committed it just now, and be killed before it has verified that Redis has not lost it: so
// done reads a committed run a second time.
func (f *FollowUp) done(ctx context.Context, actions ledger.NewRun) (bool, error) {
	done, err := f.committed(ctx, actions)
	if err != nil || !done {
		return false, err
	}
	if err := engine.Sleep(ctx, f.verifyAfter); err != nil {
		return false, err
	}
	return f.committed(ctx, actions)
}

// actionsOf returns the run of a sweep's actions. Its id has the tick too: a sweep that was
// deleted, and submitted again under its id, has another one.
func (f *FollowUp) actionsOf(run ledger.Run, tick int64) ledger.NewRun {
	id := derivedID("act", run.ID, strconv.FormatInt(tick, 10))
	return ledger.NewRun{
		ID: id, Tenant: f.cfg.Tenant, Kind: kinds.Act,
		Description: ledger.Description{
			Label: "actions of sweep " + string(run.ID), Digest: digest(string(id)), Format: format, Priority: "normal", KeepFor: actionsKeptFor,
		},
	}
}
