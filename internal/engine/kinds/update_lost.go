package kinds

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"orgops/internal/engine"
	"orgops/internal/ledger"
)

// patch is a PATCH of an earlier execution whose answer is not known.
type patch struct {
	intent
	// until is when its request cannot have an effect any more.
	until time.Time
	// since is when the first PATCH was sent whose effect no read has ruled out.
	since time.Time
}

// intent is the form in which the intent of a PATCH is stored.
type intent struct {
	// Nonce is that of the execution.
	Nonce ledger.Nonce `json:"n"`
	// Since is that of the PATCH whose intent this one replaced, if it replaced one.
	Since time.Time `json:"since,omitzero"`
}

// memo is stored with a row between its executions.
type memo struct {
	// NotSent is the nonce of the intent whose PATCH surely had no effect. The intent
	// stays, since the PATCH before may have had one.
	NotSent ledger.Nonce `json:"not_sent,omitempty"`
}

// formerPatch returns the PATCH of the row's intent; nil if there is none.
func formerPatch(row *engine.Row) (*patch, error) {
	if row.Intent == nil {
		return nil, nil
	}
	p := &patch{until: row.Intent.At}
	if err := json.Unmarshal(row.Intent.Value, &p.intent); err != nil {
		return nil, &engine.UnknownError{What: "the row's intent (" + err.Error() + ")"}
	}
	if p.since = p.Since; p.since.IsZero() {
		p.since = row.Intent.At
	}
	var m memo
	if len(row.Note.Memo) > 0 {
		if err := json.Unmarshal(row.Note.Memo, &m); err != nil {
			return nil, &engine.UnknownError{What: "the row's memo (" + err.Error() + ")"}
		}
	}
	if m.NotSent == p.Nonce {
		p.until = time.Time{}
	}
	return p, nil
}

// newPatch returns the intent of the next PATCH.
func newPatch(x *engine.Execution, former *patch) ([]byte, error) {
	next := intent{Nonce: x.Nonce()}
	if former != nil {
		next.Since = former.since
	}
	value, err := json.Marshal(next)
	if err != nil {
		return nil, fmt.Errorf("intent: %w", err)
	}
	return value, nil
}

// notSent records that the PATCH of this execution had no effect. It returns the reason.
func (u *update) notSent(ctx context.Context, x *engine.Execution, row *engine.Row, former *patch, reason error) error {
	if former == nil && !row.Intended {
		return reason
	}
	if former == nil {
		if err := x.Withdraw(ctx, row); err != nil {
			return fmt.Errorf("%w; %w", reason, err)
		}
		return reason
	}
	value, err := json.Marshal(memo{NotSent: x.Nonce()})
	if err != nil {
		return fmt.Errorf("memo: %w", err)
	}
	row.Note.Memo = value
	return reason
}

// resolve finds out whether the former PATCH has landed. The next PATCH may be sent if it
// returns false without an error.
func (u *update) resolve(ctx context.Context, x *engine.Execution, row *engine.Row, r UpdateRow, former *patch) (landed bool, err error) {
	if landed, err = u.landed(ctx, r); err != nil || landed {
		return landed, err
	}
	if x.FinishOnly {
		return false, u.abandon(ctx, x, row, former)
	}
	if left := former.until.Add(2 * u.cfg.RequestTimeout).Sub(x.Now()); !former.until.IsZero() && left > 0 {
		return false, engine.Later("a PATCH had no answer; the next one waits until it cannot land any more", left)
	}
	return false, nil
}

// abandon ends a row of a stopped run whose PATCH has not landed, once a read would
// show it.
func (u *update) abandon(ctx context.Context, x *engine.Execution, row *engine.Row, former *patch) error {
	if wait := former.wait(x.Now(), u.cfg); wait > 0 && !u.cfg.NoReads {
		return engine.Later("the run is stopped; the record is read until it shows the result of a PATCH without an answer", wait)
	}
	if x.Cancelled {
		detail := "the run was cancelled; a PATCH was under way, and the domain is not as the row asks"
		if u.cfg.NoReads {
			detail = "the run was cancelled; the domain may have been changed all the same, by a PATCH that had no answer: read the tenant's record"
		}
		return &engine.SettleError{Result: ledger.Result{Outcome: ledger.Cancelled, Detail: detail}}
	}
	if u.cfg.NoReads { // the row is executed again once the run goes on
		if left := former.until.Add(2 * u.cfg.RequestTimeout).Sub(x.Now()); !former.until.IsZero() && left > 0 {
			return engine.Later("the run is stopped; a PATCH without an answer may still land", left)
		}
	}
	if err := x.Withdraw(ctx, row); err != nil {
		return err
	}
	return engine.ErrStopped
}

// landed reports whether the record is as the row asks.
func (u *update) landed(ctx context.Context, r UpdateRow) (bool, error) {
	if u.cfg.NoReads {
		return false, nil
	}
	d, err := u.cfg.API.DiscoveryDomain(ctx, r.OrganizationID, r.DiscoveryDomainID)
	switch {
	case isNotFound(err):
		return false, nil
	case err != nil && engine.Judge(err).Outcome == engine.Refused:
		return false, engine.Retry(fmt.Errorf("read the result of the PATCH: %w", err))
	case err != nil:
		return false, err
	}
	return carriedOut(r.change(), d) == nil, nil
}

// unlessLanded returns the error, unless it refuses a row of which an earlier PATCH had
// no answer: then the record shows whether that one has landed.
func (u *update) unlessLanded(ctx context.Context, x *engine.Execution, r UpdateRow, former *patch, reason error) (ledger.Result, error) {
	if former == nil || engine.Judge(reason).Outcome != engine.Refused {
		return ledger.Result{}, reason
	}
	if u.cfg.NoReads {
		return ledger.Result{}, engine.Refuse("the domain may have been changed all the same, by a PATCH that had no answer: read the tenant's record; %s", reason)
	}
	landed, err := u.landed(ctx, r)
	if err != nil || landed {
		return ledger.Result{Outcome: ledger.Done}, err
	}
	if wait := former.wait(x.Now(), u.cfg); wait > 0 {
		return ledger.Result{}, engine.Later("a PATCH had no answer; the record is read until it shows its result", wait)
	}
	return ledger.Result{}, reason
}

// wait returns when to read the record next; 0 once a read shows whether the PATCH
// landed.
func (p *patch) wait(now time.Time, cfg UpdateConfig) time.Duration {
	const again = time.Minute // each read costs a request
	shown := p.since
	if p.until.After(shown) {
		shown = p.until
	}
	return max(min(shown.Add(cfg.Settled).Sub(now), again), 0)
}
