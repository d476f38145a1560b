package kinds

// A PATCH is idempotent (specification 4.1): a second one changes nothing. An intent is
// stored before it all the same. A PATCH whose answer was lost may land until twice the
// request timeout later, so until then the row's next execution reads only; and if the
// run is cancelled, or the next PATCH is refused, a read shows whether it has landed.

import (
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
	return errors.Join(apiclient.CheckID("organization_id", r.OrganizationID),
		apiclient.CheckID("discovery_domain_id", r.DiscoveryDomainID), r.change().Validate())
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
	if cfg.Settled == 0 {
		cfg.Settled = defaultSettled
	}
	return engine.One((&update{cfg}).execute)
}

type update struct{ cfg UpdateConfig }

func (u *update) execute(ctx context.Context, x *engine.Execution, row *engine.Row) (ledger.Result, error) {
	var r UpdateRow
	if err := engine.Decode(row.Content, &r); err != nil {
		return ledger.Result{}, err
	}
	if err := r.Validate(); err != nil {
		return ledger.Result{}, engine.Invalid(err)
	}
	if r.Status != nil && *r.Status == apiclient.StatusVerified && !u.cfg.AllowUnproven {
		return ledger.Result{}, engine.Refuse("status verified is not set without a proof: submit the domain with `enqueue domains verify`")
	}
	former, err := formerPatch(row)
	if err != nil {
		return ledger.Result{}, err
	}
	if former != nil {
		landed, err := u.resolve(ctx, x, row, r, former)
		if err != nil || landed {
			return ledger.Result{Outcome: ledger.Done}, err
		}
	}
	return u.patch(ctx, x, row, r, former)
}

// patch sends the PATCH.
func (u *update) patch(ctx context.Context, x *engine.Execution, row *engine.Row, r UpdateRow, former *patch) (ledger.Result, error) {
	change, outcome := r.change(), ledger.Done
	if change.Status != nil && change.UseForOrganizationDiscovery == nil {
		same, err := u.readFlag(ctx, x, r, &change)
		if err != nil {
			return u.unlessLanded(ctx, x, r, former, err)
		}
		if same && former == nil {
			outcome = engine.Unchanged
		}
	}
	next, err := newPatch(x, former)
	if err != nil {
		return ledger.Result{}, err
	}
	sending := x.Beginning(ctx, func(ctx context.Context) error { return x.Intend(ctx, row, next) })
	answer, err := u.cfg.API.UpdateDiscoveryDomain(sending, r.OrganizationID, r.DiscoveryDomainID, change)
	if err != nil {
		if engine.NoEffect(err) {
			err = u.notSent(ctx, x, row, former, err)
		}
		return u.unlessLanded(ctx, x, r, former, err)
	}
	return ledger.Result{Outcome: outcome}, carriedOut(change, answer)
}

// readFlag fills in the flag as the record has it, since the specification gives it a
// default of true (4.1): a PATCH of the status alone could turn a false into a true. same
// reports whether the record has the row's status. It is set all the same, since the
// read may be older than the last change.
func (u *update) readFlag(ctx context.Context, x *engine.Execution, r UpdateRow, change *apiclient.DiscoveryDomainUpdate) (same bool, err error) {
	if u.cfg.NoReads {
		return false, engine.Refuse("the tenant's credentials may not read: a row that sets status must bring use_for_organization_discovery too, or a false could turn into a true")
	}
	d, err := u.cfg.API.DiscoveryDomain(x.Beginning(ctx), r.OrganizationID, r.DiscoveryDomainID)
	if isNotFound(err) && x.Now().Sub(x.Submitted) < u.cfg.Settled { // too young to be read
		return false, engine.Retry(err)
	}
	if err != nil {
		return false, err
	}
	change.UseForOrganizationDiscovery = d.UseForOrganizationDiscovery
	return d.Status == *change.Status, nil
}

// carriedOut compares the answer, or a record, with the request.
func carriedOut(sent apiclient.DiscoveryDomainUpdate, got apiclient.DiscoveryDomain) error {
	if sent.Status != nil && got.Status != *sent.Status {
		return engine.Retry(fmt.Errorf("the API answered the PATCH with status %.20q, sent was %q", string(got.Status), string(*sent.Status)))
	}
	flag, have := sent.UseForOrganizationDiscovery, got.UseForOrganizationDiscovery
	if flag != nil && have != nil && *flag != *have {
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
