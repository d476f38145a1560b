package kinds

import (
	"context"
	"fmt"
	"time"

	"orgops/internal/engine"
	"orgops/internal/ledger"
)

// patch is the intent of a PATCH. Its answer is not known, if an earlier execution sent it.
type patch struct {
	// At is when it was sent. The intent's own time may be later: see notSent.
	At time.Time `json:"at"`
	// Nonce is that of the execution, which older workers need.
	Nonce ledger.Nonce `json:"n"`
}

// inFlight returns for how long the former PATCH may still have an effect.
func (u *update) inFlight() time.Duration {
	return max(u.former.At.Add(2*u.cfg.RequestTimeout).Sub(u.x.Now()), 0)
}

// readAgain returns when to read the record next; 0 once a read shows whether the former
// PATCH landed.
func (u *update) readAgain() time.Duration {
	const again = time.Minute // each read costs a request
	return max(min(u.former.At.Add(u.cfg.Settled).Sub(u.x.Now()), again), 0)
}

// notSent restores the former intent, if any, since the PATCH of this execution had no
// effect. It returns the reason.
func (u *update) notSent(ctx context.Context, reason error) error {
	if u.former == nil {
		return withdraw(ctx, u.x, u.row, reason)
	}
	return both(reason, amend(ctx, u.x, u.row, u.former))
}

// resolve finds out whether the former PATCH has landed. The next PATCH may be sent if it
// returns false without an error.
func (u *update) resolve(ctx context.Context) (landed bool, err error) {
	if landed, err = u.landed(ctx); err != nil || landed {
		return landed, err
	}
	if u.x.FinishOnly {
		return false, u.abandon(ctx)
	}
	if left := u.inFlight(); left > 0 {
		return false, engine.Later("a PATCH had no answer; the next one waits until it cannot land any more", left)
	}
	return false, nil
}

// abandon ends a row of a stopped run whose PATCH has not landed, once a read would
// show it.
func (u *update) abandon(ctx context.Context) error {
	if wait := u.readAgain(); wait > 0 && !u.cfg.NoReads {
		return engine.Later("the run is stopped; the record is read until it shows the result of a PATCH without an answer", wait)
	}
	if u.x.Cancelled {
		detail := "the run was cancelled; a PATCH was under way, and the domain is not as the row asks"
		if u.cfg.NoReads {
			detail = "the run was cancelled; the domain may have been changed all the same, by a PATCH that had no answer: read the tenant's record"
		}
		return &engine.SettleError{Result: ledger.Result{Outcome: ledger.Cancelled, Detail: detail}}
	}
	if left := u.inFlight(); left > 0 { // the row is executed again once the run goes on
		return engine.Later("the run is stopped; a PATCH without an answer may still land", left)
	}
	return stopped(ctx, u.x, u.row)
}

// landed reports whether the record is as the row asks.
func (u *update) landed(ctx context.Context) (bool, error) {
	if u.cfg.NoReads {
		return false, nil
	}
	d, err := u.read(ctx)
	switch {
	case isNotFound(err):
		return false, nil
	case err != nil && engine.Judge(err).Outcome == engine.Refused:
		return false, engine.Retry(fmt.Errorf("read the result of the PATCH: %w", err))
	case err != nil:
		return false, err
	}
	return carriedOut(u.want.change(), d) == nil, nil
}

// unlessLanded returns the error, unless it refuses a row of which an earlier PATCH had
// no answer: then the record shows whether that one has landed.
func (u *update) unlessLanded(ctx context.Context, reason error) (ledger.Result, error) {
	if u.former == nil || engine.Judge(reason).Outcome != engine.Refused {
		return ledger.Result{}, reason
	}
	if u.cfg.NoReads {
		return ledger.Result{}, engine.Refuse("the domain may have been changed all the same, by a PATCH that had no answer: read the tenant's record; %s", reason)
	}
	landed, err := u.landed(ctx)
	if err != nil || landed {
		return ledger.Result{Outcome: ledger.Done}, err
	}
	if wait := u.readAgain(); wait > 0 {
		return ledger.Result{}, engine.Later("a PATCH had no answer; the record is read until it shows its result", wait)
	}
	return ledger.Result{}, reason
}
