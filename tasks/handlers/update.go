package handlers

// A PATCH is idempotent (specification 4.1): a second one changes nothing. Its intent is
// stored before it all the same. An execution that finds one reads the record first, and a
// record that is as the row asks is done. Only after twice the request timeout, when the
// former PATCH cannot land any more, is the row settled otherwise, or another PATCH sent,
// with the flag as it is read then. A stopped run only reads.

import (
	"cmp"
	"context"
	"time"

	"orgops/apiclient"
	"orgops/internal/dispatch"
	"orgops/internal/engine"
	"orgops/internal/ledger"
	"orgops/tasks"
)

// Update is the kind of rows that set a discovery domain's status or discovery flag.
const Update ledger.Kind = tasks.TypeUpdate

// releaseUpdate does not have the read of an update that sets a status without the flag. One that
// brings the flag needs no read, and would not end the block of the read, so that its run would
// continue with one row for each probe.
var releaseUpdate = dispatch.Kind{Operations: dispatch.Always(apiclient.OpUpdateDiscoveryDomain), Cost: oneRequest}

// UpdateConfig configures the handler of [Update].
type UpdateConfig struct {
	API Domains
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
	return engine.One(func(ctx context.Context, x *engine.Execution, row *engine.Row) (ledger.Result, error) {
		want, err := decode[tasks.UpdateRow](row)
		if err != nil {
			return ledger.Result{}, err
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
}

func (u *update) execute(ctx context.Context) (ledger.Result, error) {
	if s := u.want.Status; s != nil && *s == apiclient.StatusVerified && !u.cfg.AllowUnproven {
		return ledger.Result{},
			engine.Refuse("status verified is not set without a proof: submit the domain with `enqueue domains verify`")
	}
	if u.row.Intent == nil {
		return u.patch(ctx)
	}
	former := patch{At: u.row.Intent.At} // unless it has a time of its own
	if err := readIntent(u.row, &former); err != nil {
		return ledger.Result{}, err
	}
	left, again := u.inFlight(former.At), u.readAgain(former.At)
	d, err := u.read(ctx)
	switch {
	case err == nil && carriedOut(u.want.Update(), d) == nil:
		return ledger.Result{Outcome: ledger.Done}, nil
	case err != nil && !isNotFound(err):
		return ledger.Result{}, retryRefused(err)
	case left > 0:
		return ledger.Result{}, engine.Later("a PATCH had no answer; the next one waits until it cannot land any more", left)
	case err != nil:
		return ledger.Result{}, err
	case u.x.FinishOnly && again > 0:
		return ledger.Result{}, engine.Later(unread, again)
	case u.x.Cancelled:
		return ledger.Result{
			Outcome: ledger.Cancelled,
			Detail:  "the run was cancelled; a PATCH was under way, and the domain is not as the row asks",
		}, nil
	case u.x.FinishOnly:
		return ledger.Result{}, stopped(ctx, u.x, u.row)
	}
	result, err := u.patch(ctx)
	if again > 0 && engine.Decide(err).Outcome == engine.Refused {
		err = engine.Later(unread, again) // the read may be older than the former PATCH
	}
	return result, err
}

// patch sends the PATCH. A status is sent with a flag, since the specification gives that a
// default of true (4.1): without it a false could turn into a true. If the row does not name
// the flag, it is sent as it is read. A record that has the row's status already gets it all
// the same, since the read may be older than the last change.
func (u *update) patch(ctx context.Context) (ledger.Result, error) {
	next, result := u.want.Update(), ledger.Result{Outcome: ledger.Done}
	reads := next.Status != nil && next.UseForOrganizationDiscovery == nil
	if reads {
		d, err := u.readYoung(u.x.Beginning(ctx, u.stamp))
		if err != nil {
			return ledger.Result{}, err
		}
		next.UseForOrganizationDiscovery = d.UseForOrganizationDiscovery
		if d.Status == *next.Status && u.row.Intent == nil {
			result.Outcome = engine.Unchanged
		}
	}
	answer, err := u.send(ctx, next, func(ctx context.Context) error {
		if reads && !u.isFresh(u.readAt) {
			return engine.Later("the record was read too long before the permit; it is read again", time.Second)
		}
		return putIntent(ctx, u.x.Intend, u.row, patch{At: u.x.Now()})
	}, u.notSent)
	if err != nil {
		return ledger.Result{}, err
	}
	return result, carriedOut(next, answer)
}
