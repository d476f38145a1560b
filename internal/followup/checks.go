package followup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"orgops/internal/engine"
	"orgops/internal/engine/kinds"
	"orgops/internal/ledger"
	"orgops/internal/sweep"
)

const (
	// checksEvery is how often the checks of the hour are tried to be submitted, until they are.
	checksEvery = time.Minute
	// checksKeptFor is how long a run of checks is stored after its end.
	checksKeptFor = 24 * time.Hour
)

// Run submits the checks of each hour while active reports that this worker has to, until
// ctx ends.
func (f *FollowUp) Run(ctx context.Context, active func() bool) {
	var h hours
	for {
		if active() {
			if err := f.checkHour(ctx, &h); err != nil && ctx.Err() == nil {
				f.cfg.Logger.WarnContext(ctx, "checks between sweeps not submitted", "tenant", f.cfg.Tenant, "error", err)
			}
		}
		if engine.Sleep(ctx, checksEvery) != nil {
			return
		}
	}
}

// hours are the last hours for which the checks were submitted, and were delayed.
type hours struct{ submitted, delayed time.Time }

// checkHour submits the checks of the present hour unless that is done.
func (f *FollowUp) checkHour(ctx context.Context, h *hours) error {
	now, err := f.cfg.Ledger.Now(ctx)
	if err != nil {
		return err
	}
	hour := now.Truncate(time.Hour)
	if hour.Equal(h.submitted) {
		return nil
	}
	submitted, err := f.Check(ctx, now)
	switch {
	case err != nil:
		return err
	case submitted:
		h.submitted = hour
	case now.Sub(hour) > 10*checksEvery && !hour.Equal(h.delayed): // the last of an hour end in the next one
		h.delayed = hour
		f.cfg.Logger.WarnContext(ctx, "checks between sweeps wait for those of an earlier hour", "tenant", f.cfg.Tenant, "what_to_do", "start the tenant, or resume the run relook-"+string(f.cfg.Tenant)+"-..., if it was stopped")
	}
	return nil
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
	if free, err := f.clean(ctx, checks.ID, now); err != nil || !free {
		return false, err
	}
	s := f.submission(checks)
	for w, err := range f.cfg.States.Watched(ctx) {
		switch {
		case err != nil && w.ID == "":
			return false, err
		case err != nil:
			f.cfg.Logger.ErrorContext(ctx, "domain state unreadable", "tenant", f.cfg.Tenant, "discovery_domain_id", w.ID, "error", err, "help", sweep.Unreadable)
			continue
		case w.NotBetween(now):
			continue
		}
		if err := f.addCheck(ctx, s, w, now, hour); err != nil {
			return false, err
		}
	}
	if err := s.submit(ctx); err != nil {
		return false, err
	}
	return true, nil
}

// clean deletes, or cancels, what is left of the checks of other hours, and reports whether
// none of these is still to be done.
func (f *FollowUp) clean(ctx context.Context, present ledger.RunID, now time.Time) (free bool, err error) {
	open, err := f.cfg.Ledger.OpenRuns(ctx, f.cfg.Tenant)
	if err != nil && len(open) == 0 {
		return false, err
	}
	if err != nil { // a header that cannot be read is hardly that of a run of checks
		f.cfg.Logger.WarnContext(ctx, "some runs cannot be read", "tenant", f.cfg.Tenant, "error", err)
	}
	free = true
	for _, run := range open {
		if run.Kind != kinds.HourlyCheck || run.ID == present || run.Ended() {
			continue
		}
		done, err := f.cleanRun(ctx, run, now)
		if err != nil && !errors.Is(err, ledger.ErrNotFound) && !errors.Is(err, ledger.ErrEnded) {
			return false, err
		}
		free = free && done
	}
	return free, nil
}

// cleanRun deletes a run of checks of another hour that is staged, and cancels one that can
// never end by itself. It reports whether nothing is left to be done of the run.
func (f *FollowUp) cleanRun(ctx context.Context, run ledger.Run, now time.Time) (done bool, err error) {
	switch {
	case run.Staged():
		_, err = f.cfg.Ledger.DeleteStaged(ctx, run)
		return true, err
	case run.Cancelled:
		return true, nil
	case run.Incomplete, run.Growing, run.CreatedAt.Sub(now) > 2*time.Hour: // the clock of Redis was ahead
		return true, f.cfg.Ledger.Cancel(ctx, run.ID)
	}
	return false, nil
}

// addCheck adds the check of a domain, at the domain's own time of what is left of the hour.
func (f *FollowUp) addCheck(ctx context.Context, s *submission, w sweep.WatchedDomain, now, hour time.Time) error {
	content, err := json.Marshal(kinds.HourlyRow{OrganizationID: w.OrganizationID, DiscoveryDomainID: w.ID, Tick: w.Tick})
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
		ID: id, Tenant: f.cfg.Tenant, Kind: kinds.HourlyCheck,
		Description: ledger.Description{
			Label: "checks between sweeps", Digest: digest(string(id)), Format: format, Priority: "normal", KeepFor: checksKeptFor, Single: true,
		},
	}
}
