package handlers

// A PATCH is idempotent (specification 4.1): a second one changes nothing. Its intent is
// stored before it all the same. An execution that finds one reads the record first, and a
// record that is as the row asks is done. Only after twice the request timeout, when the
// former PATCH cannot land any more, is the row settled otherwise, or another PATCH sent,
// with the flag as it is read then. A stopped run only reads. The values that the first PATCH
// replaces are in each intent, so that the row's result has them whatever happens.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"orgops/apiclient"
	"orgops/apiclient/schema"
	"orgops/internal/engine"
	"orgops/internal/evidence"
	"orgops/internal/ledger"
	"orgops/internal/sweep"
	"orgops/tasks"
)

// Update is the kind of rows that set a discovery domain's status or discovery flag.
const Update ledger.Kind = tasks.TypeUpdate

// UpdateConfig configures the handler of [Update].
type UpdateConfig struct {
	API func(apiclient.Binding) Domains
	// States counts the verified domains that are set to pending, with the tenant's revocations.
	States *sweep.States
	// RequestTimeout is as in [VerifyConfig].
	RequestTimeout time.Duration
	// AllowUnproven permits rows that set status verified without a proof.
	AllowUnproven bool
	// Settled is how long a read may show a record as it was before a change; 0: 5 minutes.
	Settled time.Duration
}

// NewUpdate returns the handler of [Update].
func NewUpdate(cfg UpdateConfig) engine.Handler {
	cfg.Settled = cmp.Or(cfg.Settled, defaultSettled)
	return engine.One(func(ctx context.Context, x *engine.Execution, row *engine.Row) *engine.Consequence {
		want, err := decode[tasks.UpdateRow](row)
		if err != nil {
			return engine.Fail(err)
		}
		u := &update{
			change: change{
				x: x, row: row, api: cfg.API, timeout: cfg.RequestTimeout, settled: cfg.Settled,
				organization: want.OrganizationID, domain: want.DiscoveryDomainID,
			},
			cfg: cfg, want: want,
		}
		return u.execute(ctx)
	})
}

// update is one execution of a row.
type update struct {
	change

	cfg  UpdateConfig
	want tasks.UpdateRow
}

// patch is the intent of a PATCH.
type patch struct {
	// At is when it was sent. The intent's own time may be later: see notSent.
	At time.Time `json:"at"`
	// Before is what the row's first PATCH replaces.
	Before evidence.Before `json:"before"`
}

func (u *update) execute(ctx context.Context) *engine.Consequence {
	if s := u.want.Status; s != nil && *s == schema.StatusVerified && !u.cfg.AllowUnproven {
		return engine.Fail(
			engine.Refuse("status verified is not set without a proof: submit the domain with `enqueue domains verify`"))
	}
	if u.row.Intent == nil {
		return u.patch(ctx, nil)
	}
	former := patch{At: u.row.Intent.At} // unless it has a time of its own
	if err := readIntent(u.row, &former); err != nil {
		return engine.Fail(err)
	}

	// The record shows whether the former PATCH has landed.
	left := u.inFlight(former.At)
	again := u.readAgain(former.At)
	d, err := u.read(ctx, u.x.Unfenced())
	switch {
	case err == nil && carriedOut(u.want.Update(), d) == nil:
		return u.done(ctx, former.Before, former.At)
	case err != nil && !isNotFound(err):
		return engine.Fail(retryRefused(err))
	case left > 0:
		return engine.Later("a PATCH had no answer; the next one waits until it cannot land any more", left)
	case err != nil:
		return engine.Fail(err)
	case u.x.FinishOnly && again > 0:
		return engine.Later(unread, again)
	case u.x.Cancelled:
		return engine.Settle(ledger.Result{
			Outcome: ledger.Cancelled,
			Detail:  "the run was cancelled; a PATCH was under way, and the domain is not as the row asks",
		})
	case u.x.FinishOnly:
		return engine.Fail(stopped(ctx, u.x, u.row))
	}

	// It has not, unless the read is behind.
	end := u.patch(ctx, &former.Before)
	if again > 0 && end.Outcome == ledger.Refused {
		return engine.Later(unread, again)
	}
	return end
}

// patch sends the PATCH. A status is sent with a flag, since the specification gives that a
// default of true (4.1): without it a false could turn into a true. If the row does not name the
// flag, it is sent as it is read, and not at all if the record has none. A record that is as the
// row asks gets it all the same, since the read may be older than the last change. before is what
// an earlier PATCH of the row has replaced if it has landed; nil: there was none.
func (u *update) patch(ctx context.Context, before *evidence.Before) *engine.Consequence {
	// The record before the PATCH, and whether it may be changed.
	d, err := u.readYoung(ctx, u.x.Fenced())
	if before == nil {
		err = u.notice(ctx, d, err, u.cfg.States.NoticeRead)
	}
	if err != nil {
		return engine.Fail(err)
	}
	if undo := u.want.Undo; undo != nil && !undo.Holds(d) {
		return u.leaveAlone(undo.LeftAlone())
	}

	// The members that the PATCH sends.
	next := u.want.Update()
	if next.Status != nil && next.UseForOrganizationDiscovery == nil {
		next.UseForOrganizationDiscovery = d.Flag
	}
	isAsAsked := before == nil && carriedOut(next, d) == nil
	if before == nil {
		before = &evidence.Before{Status: d.Status, UseForOrganizationDiscovery: d.Flag}
	}

	// With the permit, the record must be young still, and the brake must let the domain go.
	answer, err := u.send(ctx, next, func(ctx context.Context) error {
		if !u.isFresh(u.readAt) {
			return errStale
		}
		now := u.x.Now()
		if next.Status != nil && *next.Status == schema.StatusPending && d.IsVerified() {
			if err := u.count(ctx, now); err != nil {
				return err
			}
		}
		return putIntent(ctx, u.x.Intend, u.row, patch{At: now, Before: *before})
	}, u.notSent)
	if errors.Is(err, errStale) {
		return engine.Later(errStale.Error()+"; it is read again", time.Second)
	}
	if err != nil {
		return engine.Fail(err)
	}
	if err := carriedOut(next, answer); err != nil {
		return engine.Fail(err)
	}
	if isAsAsked {
		return engine.Settle(ledger.Result{Outcome: ledger.Unchanged})
	}
	return u.done(ctx, *before, u.x.Now())
}

// done settles the row of a record that was changed at that time.
func (u *update) done(ctx context.Context, before evidence.Before, at time.Time) *engine.Consequence {
	if s := u.want.Status; s != nil && *s == schema.StatusPending {
		if err := u.cfg.States.SetToPending(ctx, u.domain, string(u.x.Run), at); err != nil {
			return fail(err)
		}
	}
	e := evidence.Evidence{Before: &before}
	e.At = at.UTC().Truncate(time.Second)
	packed, err := e.Pack()
	if err != nil {
		return engine.Fail(err)
	}
	return engine.Settle(ledger.Result{Outcome: ledger.Done, Evidence: packed})
}

// count counts a verified domain that is to be set to pending as a revocation, or refuses the row:
// the tenant has had too many.
func (u *update) count(ctx context.Context, now time.Time) error {
	most := u.x.Max
	if most == 0 {
		last, _, err := u.cfg.States.Summary(ctx)
		if err != nil {
			return err
		}
		most = last.Max()
	}
	ok, err := u.cfg.States.Store.CountRevocation(ctx, revocationName(u.x, u.row), now, most)
	if err != nil || ok {
		return err
	}
	return engine.Refuse("not set to pending: %d verified domains of the tenant were set to pending or revoked in seven "+
		"days, the most that may be. If the rows are right, submit those that have failed again with a greater --max", most)
}

// revocationName is the name under which the revocation of a row is counted once.
func revocationName(x *engine.Execution, row *engine.Row) string {
	s := x.Segment
	return fmt.Sprintf("%s/%s/%d/%d", s.Run, s.Incarnation, s.Number, row.Number)
}
