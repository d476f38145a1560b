package kinds

// A PATCH is idempotent (specification 4.1): a second one changes nothing. An intent is
// stored before it all the same. A PATCH whose answer was lost may land until twice the
// request timeout later, so until then the row's next execution reads only; and if the
// run is cancelled, or the next PATCH is refused, a read shows whether it has landed.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
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

// Validate checks what does not need the tenant.
func (r UpdateRow) Validate() error {
	return errors.Join(checkIDs(r.OrganizationID, r.DiscoveryDomainID), r.change().Validate())
}

func (r UpdateRow) change() apiclient.DiscoveryDomainUpdate {
	return apiclient.DiscoveryDomainUpdate{Status: r.Status, UseForOrganizationDiscovery: r.UseForOrganizationDiscovery}
}

// Domains is the part of the API's client that updates need.
type Domains interface {
	DiscoveryDomain(ctx context.Context, organization, domain string) (apiclient.DiscoveryDomain, error)
	UpdateDiscoveryDomain(ctx context.Context, organization, domain string, u apiclient.DiscoveryDomainUpdate) (apiclient.DiscoveryDomain, error)
}

// UpdateConfig configures the handler of [Update].
type UpdateConfig struct {
	API Domains
	// RequestTimeout is the client's: a request whose answer was lost may have its effect
	// until twice that time later.
	RequestTimeout time.Duration
	// NoReads says that the credentials may not read. Rows that set a status must bring
	// the flag then.
	NoReads bool
	// AllowUnproven permits rows that set status verified without a proof.
	AllowUnproven bool
	// Settled is how long a read may show a record as it was before a change; 0: 5 minutes.
	Settled time.Duration
}

// defaultSettled is the default of UpdateConfig.Settled: reads of discovery domains are
// eventually consistent.
const defaultSettled = 5 * time.Minute

// NewUpdate returns the handler of [Update].
func NewUpdate(cfg UpdateConfig) engine.Handler {
	cfg.Settled = cmp.Or(cfg.Settled, defaultSettled)
	return engine.One(func(ctx context.Context, x *engine.Execution, row *engine.Row) (ledger.Result, error) {
		u := &update{cfg: cfg, x: x, row: row}
		if err := u.load(); err != nil {
			return ledger.Result{}, err
		}
		return u.execute(ctx)
	})
}

// update is one execution of a row.
type update struct {
	cfg UpdateConfig
	x   *engine.Execution
	row *engine.Row

	want   UpdateRow
	former *patch // of an earlier execution; nil: none
}

func (u *update) load() (err error) {
	if u.want, err = decode[UpdateRow](u.row); err != nil {
		return err
	}
	if s := u.want.Status; s != nil && *s == apiclient.StatusVerified && !u.cfg.AllowUnproven {
		return engine.Refuse("status verified is not set without a proof: submit the domain with `enqueue domains verify`")
	}
	if u.row.Intent != nil {
		u.former = &patch{At: u.row.Intent.At} // unless it has a time of its own
		return readIntent(u.row, u.former)
	}
	return nil
}

func (u *update) execute(ctx context.Context) (ledger.Result, error) {
	if u.former != nil {
		landed, err := u.resolve(ctx)
		if err != nil || landed {
			return ledger.Result{Outcome: ledger.Done}, err
		}
	}
	return u.patch(ctx)
}

// patch sends the PATCH.
func (u *update) patch(ctx context.Context) (ledger.Result, error) {
	change, outcome := u.want.change(), ledger.Done
	if change.Status != nil && change.UseForOrganizationDiscovery == nil {
		same, err := u.readFlag(ctx, &change)
		if err != nil {
			return u.unlessLanded(ctx, err)
		}
		if same && u.former == nil {
			outcome = engine.Unchanged
		}
	}
	stored := false
	sending := u.x.Beginning(ctx, func(ctx context.Context) error {
		err := intend(ctx, u.x, u.row, patch{At: u.x.Now(), Nonce: u.x.Nonce()})
		stored = stored || err == nil
		return err
	})
	answer, err := u.cfg.API.UpdateDiscoveryDomain(sending, u.want.OrganizationID, u.want.DiscoveryDomainID, change)
	if err != nil {
		if stored && engine.NoEffect(err) {
			err = u.notSent(ctx, err)
		}
		return u.unlessLanded(ctx, err)
	}
	return ledger.Result{Outcome: outcome}, carriedOut(change, answer)
}

// readFlag fills in the flag as the record has it, since the specification gives it a
// default of true (4.1): a PATCH of the status alone could turn a false into a true. same
// reports whether the record has the row's status. It is set all the same, since the
// read may be older than the last change.
func (u *update) readFlag(ctx context.Context, change *apiclient.DiscoveryDomainUpdate) (same bool, err error) {
	if u.cfg.NoReads {
		return false, engine.Refuse("the tenant's credentials may not read: a row that sets status must bring use_for_organization_discovery too, or a false could turn into a true")
	}
	d, err := u.read(u.x.Beginning(ctx))
	if isNotFound(err) && u.x.Now().Sub(u.x.Submitted) < u.cfg.Settled { // too young to be read
		return false, engine.Retry(err)
	}
	if err != nil {
		return false, err
	}
	change.UseForOrganizationDiscovery = d.UseForOrganizationDiscovery
	return d.Status == *change.Status, nil
}

func (u *update) read(ctx context.Context) (apiclient.DiscoveryDomain, error) {
	return u.cfg.API.DiscoveryDomain(ctx, u.want.OrganizationID, u.want.DiscoveryDomainID)
}

// carriedOut compares the answer, or a record, with the request.
func carriedOut(sent apiclient.DiscoveryDomainUpdate, got apiclient.DiscoveryDomain) error {
	if sent.Status != nil && got.Status != *sent.Status {
		return engine.Retry(fmt.Errorf("the API answered the PATCH with status %.20q, sent was %q", string(got.Status), string(*sent.Status)))
	}
	if flag, have := sent.UseForOrganizationDiscovery, got.UseForOrganizationDiscovery; differ(flag, have) {
		return engine.Retry(fmt.Errorf("the API answered the PATCH with use_for_organization_discovery %t, sent was %t", *have, *flag))
	}
	return nil
}

// unchanged is the result of a row that needs no request.
func unchanged(why string) ledger.Result {
	return ledger.Result{Outcome: engine.Unchanged, Detail: why}
}

// isNotFound reports whether the API has no such record.
func isNotFound(err error) bool {
	answer, ok := errors.AsType[*apiclient.Error](err)
	return ok && answer.Status == http.StatusNotFound
}
