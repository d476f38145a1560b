package kinds

// A PATCH is idempotent (specification 4.1): a second one changes nothing. An intent is
// stored before it all the same. If the answer is lost, the row's next execution only reads
// until the PATCH cannot land any more (change.go); and if the run is cancelled, or the next
// PATCH is refused, a read shows whether it has landed.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"orgops/apiclient"
	"orgops/internal/engine"
	"orgops/internal/ledger"
)

// Update is the kind of rows that set a discovery domain's status or discovery flag.
const Update ledger.Kind = "domain:update"

// UpdateRow is the content of a row of kind [Update].
type UpdateRow struct {
	OrganizationID    string `json:"organization_id"`
	DiscoveryDomainID string `json:"discovery_domain_id"`
	// Status and UseForOrganizationDiscovery are set as given; nil: unchanged.
	Status                      *apiclient.DomainStatus `json:"status,omitempty"`
	UseForOrganizationDiscovery *bool                   `json:"use_for_organization_discovery,omitempty"`
}

// Validate checks the row, as far as that needs no tenant.
func (r UpdateRow) Validate() error {
	return errors.Join(checkIDs(r.OrganizationID, r.DiscoveryDomainID), r.update().Validate())
}

func (r UpdateRow) update() apiclient.DiscoveryDomainUpdate {
	return apiclient.DiscoveryDomainUpdate{Status: r.Status, UseForOrganizationDiscovery: r.UseForOrganizationDiscovery}
}

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
		want, err := decode[UpdateRow](row)
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

	cfg    UpdateConfig
	want   UpdateRow
	former *patch // of an earlier execution; nil: none
}

// patch is the intent of a PATCH. Its answer is not known, if an earlier execution sent it.
type patch struct {
	// At is when it was sent. The intent's own time may be later: see notSent.
	At time.Time `json:"at"`
}

func (u *update) execute(ctx context.Context) (ledger.Result, error) {
	if s := u.want.Status; s != nil && *s == apiclient.StatusVerified && !u.cfg.AllowUnproven {
		return ledger.Result{}, engine.Refuse("status verified is not set without a proof: submit the domain with `enqueue domains verify`")
	}
	if u.row.Intent == nil {
		return u.patch(ctx)
	}
	u.former = &patch{At: u.row.Intent.At} // unless it has a time of its own
	if err := readIntent(u.row, u.former); err != nil {
		return ledger.Result{}, err
	}
	return u.resume(ctx)
}

// resume continues a row of which an earlier execution may have sent the PATCH.
func (u *update) resume(ctx context.Context) (ledger.Result, error) {
	if landed, err := u.landed(ctx); err != nil || landed {
		return ledger.Result{Outcome: ledger.Done}, err
	}
	if u.x.FinishOnly {
		return ledger.Result{}, u.abandon(ctx)
	}
	if left := u.inFlight(u.former.At); left > 0 {
		return ledger.Result{}, engine.Later("a PATCH had no answer; the next one waits until it cannot land any more", left)
	}
	result, err := u.patch(ctx)
	if engine.Decide(err).Outcome == engine.Refused {
		return u.refused(ctx, err)
	}
	return result, err
}

// patch sends the PATCH.
func (u *update) patch(ctx context.Context) (ledger.Result, error) {
	next, outcome := u.want.update(), ledger.Done
	if next.Status != nil && next.UseForOrganizationDiscovery == nil {
		same, err := u.readFlag(ctx, &next)
		if err != nil {
			return ledger.Result{}, err
		}
		if same && u.former == nil {
			outcome = engine.Unchanged
		}
	}
	store := func(ctx context.Context) error {
		if !u.readAt.IsZero() && !u.isFresh(u.readAt) {
			return engine.Later("the record was read too long before the permit; it is read again", time.Second)
		}
		return intend(ctx, u.x, u.row, patch{At: u.x.Now()})
	}
	answer, err := u.send(ctx, next, store, u.notSent)
	if err != nil {
		return ledger.Result{}, err
	}
	return ledger.Result{Outcome: outcome}, carriedOut(next, answer)
}

// readFlag fills in the flag as the record has it, since the specification gives it a
// default of true (4.1): a PATCH without it could turn a false into a true. same
// reports whether the record has the row's status. It is set all the same, since the
// read may be older than the last change.
func (u *update) readFlag(ctx context.Context, next *apiclient.DiscoveryDomainUpdate) (same bool, err error) {
	d, err := u.readYoung(u.x.Beginning(ctx, u.stamp))
	if err != nil {
		return false, err
	}
	next.UseForOrganizationDiscovery = d.UseForOrganizationDiscovery
	return d.Status == *next.Status, nil
}

// landed reports whether the record is as the row asks.
func (u *update) landed(ctx context.Context) (bool, error) {
	d, err := u.read(ctx)
	switch {
	case isNotFound(err):
		return false, nil
	case err != nil:
		return false, retryRefused(fmt.Errorf("read the result of the PATCH: %w", err))
	}
	return carriedOut(u.want.update(), d) == nil, nil
}

// abandon ends a row of a stopped run whose PATCH has not landed, once a read would
// show it.
func (u *update) abandon(ctx context.Context) error {
	if wait := u.readAgain(u.former.At); wait > 0 {
		return engine.Later("the run is stopped; the record is read until it shows the result of a PATCH without an answer", wait)
	}
	if u.x.Cancelled {
		const detail = "the run was cancelled; a PATCH was under way, and the domain is not as the row asks"
		return engine.Settle(ledger.Result{Outcome: ledger.Cancelled, Detail: detail})
	}
	if left := u.inFlight(u.former.At); left > 0 { // the row is executed again once the run goes on
		return engine.Later("the run is stopped; a PATCH without an answer may still land", left)
	}
	return stopped(ctx, u.x, u.row)
}

// refused ends a row of which a PATCH was refused after one that had no answer: the record
// shows whether that one has landed.
func (u *update) refused(ctx context.Context, reason error) (ledger.Result, error) {
	if landed, err := u.landed(ctx); err != nil || landed {
		return ledger.Result{Outcome: ledger.Done}, err
	}
	if wait := u.readAgain(u.former.At); wait > 0 && !isNotFound(reason) {
		return ledger.Result{}, engine.Later("a PATCH had no answer; the record is read until it shows its result", wait)
	}
	return ledger.Result{}, reason
}
