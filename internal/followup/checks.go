package followup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"orgops/internal/engine/kinds"
	"orgops/internal/ledger"
	"orgops/internal/sweep"
)

const (
	// checksEvery is how often the checks of the hour are tried to be submitted, until they are.
	checksEvery = time.Minute
	// checksKeptFor is how long a run of checks is kept after its end.
	checksKeptFor = 24 * time.Hour
)

// Run submits the checks of each hour while active reports that this worker has to, until
// ctx ends.
func (f *FollowUp) Run(ctx context.Context, active func() bool) {
	var submitted time.Time // the hour
	for {
		if active() {
			hour, err := f.checkHour(ctx, submitted)
			if err != nil && ctx.Err() == nil {
				f.cfg.Logger.WarnContext(ctx, "checks between sweeps not submitted", "error", err)
			}
			submitted = hour
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(checksEvery):
		}
	}
}

// checkHour submits the checks of the present hour unless that is done. It returns the hour
// for which it is.
func (f *FollowUp) checkHour(ctx context.Context, done time.Time) (time.Time, error) {
	now, err := f.cfg.Ledger.Now(ctx)
	if err != nil {
		return done, err
	}
	hour := now.Truncate(time.Hour)
	if hour.Equal(done) {
		return done, nil
	}
	if ok, err := f.Check(ctx, now); err != nil || !ok {
		return done, err
	}
	return hour, nil
}

// Check submits the checks of the watched domains in the hour of a time, Redis' present one,
// and reports whether they are submitted: not before those of an earlier hour are done, so
// that no checks pile up while the tenant is stopped.
func (f *FollowUp) Check(ctx context.Context, now time.Time) (submitted bool, err error) {
	hour := now.Truncate(time.Hour)
	checks := f.checksOf(hour)
	if submitted, err = f.committed(ctx, checks); err != nil || submitted {
		return submitted, err
	}
	if free, err := f.clean(ctx, checks.ID); err != nil || !free {
		return false, err
	}
	s := submission{ledger: f.cfg.Ledger, run: checks}
	for w, err := range f.cfg.States.Watched(ctx) {
		if err != nil {
			return false, err
		}
		if err := f.addCheck(ctx, &s, w, now, hour); err != nil {
			return false, err
		}
	}
	return true, s.commit(ctx)
}

// clean deletes, or cancels, what is left of the checks of earlier hours, and reports
// whether none of these is still to be done.
func (f *FollowUp) clean(ctx context.Context, present ledger.RunID) (free bool, err error) {
	open, err := f.cfg.Ledger.OpenRuns(ctx, f.cfg.Tenant)
	if err != nil {
		return false, err
	}
	free = true
	for _, run := range open {
		if run.Kind != kinds.Relook || run.ID == present || run.Ended() {
			continue
		}
		switch {
		case run.Staged():
			err = f.cfg.Ledger.Delete(ctx, run.ID)
		case run.Control.Incomplete:
			err = f.cfg.Ledger.Cancel(ctx, run.ID)
		default:
			free = false
		}
		if err != nil && !errors.Is(err, ledger.ErrNotFound) && !errors.Is(err, ledger.ErrEnded) {
			return false, err
		}
	}
	return free, nil
}

// addCheck adds the check of a domain, at the domain's own time of what is left of the hour.
func (f *FollowUp) addCheck(ctx context.Context, s *submission, w sweep.WatchedDomain, now, hour time.Time) error {
	content, err := json.Marshal(kinds.RelookRow{OrganizationID: w.OrganizationID, DiscoveryDomainID: w.ID, Tick: w.Tick})
	if err != nil {
		return fmt.Errorf("check of domain %s: %w", w.ID, err)
	}
	due := sweep.Spread(w.ID, now.Unix(), hour.Add(time.Hour).Unix())
	return s.add(ctx, content, time.Unix(due, 0).UTC())
}

// checksOf returns the run of the checks of an hour. Lists of runs leave it out.
func (f *FollowUp) checksOf(hour time.Time) ledger.NewRun {
	id := ledger.RunID(fmt.Sprintf("relook-%s-%d", f.cfg.Tenant, hour.Unix()))
	return ledger.NewRun{
		ID: id, Tenant: f.cfg.Tenant, Kind: kinds.Relook,
		Description: ledger.Description{
			Label: "checks between sweeps", Digest: digest(string(id)), Format: format, Priority: "normal", KeepFor: checksKeptFor, Single: true,
		},
	}
}
