package tasks

// PATCH is idempotent (specification 4.1): a second run sets what is set. A mark
// is set before it all the same: whoever cancels the run, or gets a refusal after
// an answer was lost, is told what the record says.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"orgops/apiclient"
)

// UpdatePayload sets a discovery domain's status or discovery flag, or both.
type UpdatePayload struct {
	Envelope

	OrganizationID              string                  `json:"organization_id"`
	DiscoveryDomainID           string                  `json:"discovery_domain_id"`
	Status                      *apiclient.DomainStatus `json:"status,omitempty"`
	UseForOrganizationDiscovery *bool                   `json:"use_for_organization_discovery,omitempty"`
}

// Validate checks what does not need the tenant.
func (p UpdatePayload) Validate() error {
	return errors.Join(checkDomainIDs(p.OrganizationID, p.DiscoveryDomainID), p.change().Validate())
}

func (p UpdatePayload) change() apiclient.DiscoveryDomainUpdate {
	return apiclient.DiscoveryDomainUpdate{Status: p.Status, UseForOrganizationDiscovery: p.UseForOrganizationDiscovery}
}

type update struct {
	cfg     Config
	records records
}

// patching is the intent that is kept before the PATCH.
type patching struct {
	At time.Time `json:"at"`
}

func (h *update) process(ctx context.Context, job Job, p UpdatePayload) (Result, error) {
	if p.Status != nil && *p.Status == apiclient.StatusVerified && !h.cfg.AllowUnproven {
		return Result{}, refused("status verified is not set without a proof: submit the domain with `enqueue domains verify`")
	}
	former, err := patchingBefore(job)
	if err != nil {
		return Result{}, err
	}
	if job.ending && former != nil {
		return h.lookAfter(ctx, p, *former, cancelled("the run was cancelled; a PATCH was in progress, and the domain is not as the row asks"))
	}
	change, outcome := p.change(), Done
	if change.Status != nil && change.UseForOrganizationDiscovery == nil {
		same, err := h.readFlag(ctx, job, p, &change)
		if err != nil {
			return h.unlessCarriedOut(ctx, p, former, err)
		}
		if same && former == nil {
			outcome = Unchanged
		}
	}
	if err := begin(ctx, h.cfg.Ledger, job, keptIntent, patching{At: h.cfg.Now()}); err != nil {
		return Result{}, err
	}
	answer, err := h.cfg.API.UpdateDiscoveryDomain(job.beginning(ctx), p.OrganizationID, p.DiscoveryDomainID, change)
	if err != nil {
		if noEffect(err) {
			err = notBegun(ctx, h.cfg.Ledger, job, keptIntent, former, err)
		}
		return h.unlessCarriedOut(ctx, p, former, err)
	}
	return Result{Outcome: outcome}, carriedOut(change, answer)
}

// patchingBefore is the intent of an earlier execution, if one stands.
func patchingBefore(job Job) (*patching, error) {
	value := job.kept[keptIntent]
	if len(value) == 0 {
		return nil, nil
	}
	in := new(patching)
	if err := json.Unmarshal(value, in); err != nil {
		return nil, fmt.Errorf("intent stored for this row: %w", err)
	}
	return in, nil
}

// unlessCarriedOut is err, but for a refusal where an earlier PATCH had no answer:
// then the record says what is so.
func (h *update) unlessCarriedOut(ctx context.Context, p UpdatePayload, former *patching, err error) (Result, error) {
	if former == nil || Judge(err).Outcome != Refused {
		return Result{}, err
	}
	return h.lookAfter(ctx, p, *former, err)
}

// lookAfter settles a row whose PATCH had no answer by the record: done, or
// otherwise, once a read cannot be older than the PATCH any more.
func (h *update) lookAfter(ctx context.Context, p UpdatePayload, former patching, otherwise error) (Result, error) {
	if h.cfg.TrustPayload {
		j := Judge(otherwise)
		return Result{}, &settledError{j.Outcome, "a request without a response may have changed the domain nevertheless: check the tenant's record; " + j.Reason}
	}
	d, err := h.cfg.API.DiscoveryDomain(ctx, p.OrganizationID, p.DiscoveryDomainID)
	var answer *apiclient.Error
	switch {
	case errors.As(err, &answer) && answer.Status == http.StatusNotFound:
	case err != nil && Judge(err).Outcome == Refused:
		return Result{}, transient(fmt.Errorf("read the result of the PATCH: %w", err))
	case err != nil:
		return Result{}, err
	case carriedOut(p.change(), d) == nil:
		return Result{Outcome: Done}, nil
	}
	if wait := former.At.Add(young).Sub(h.cfg.Now()); wait > 0 {
		const again = time.Minute // costs a request
		return Result{}, later("a PATCH had no response; its result is being read again", wholeSeconds(min(wait, again)))
	}
	return Result{}, otherwise
}

// readFlag fills in the flag as the record has it, because the specification
// gives it a default of true (4.1): a PATCH of the status alone could turn a
// false into a true. same says that the status reads as it is to be; it is set
// all the same, for the read may be older than the last change.
func (h *update) readFlag(ctx context.Context, job Job, p UpdatePayload, change *apiclient.DiscoveryDomainUpdate) (same bool, err error) {
	if h.cfg.TrustPayload {
		return false, refused("the tenant's credentials may not read; then a row that sets status has to bring use_for_organization_discovery too, or a false could turn into a true")
	}
	d, err := h.records.read(ctx, job, p.OrganizationID, p.DiscoveryDomainID)
	if err != nil {
		return false, err
	}
	change.UseForOrganizationDiscovery = d.UseForOrganizationDiscovery
	return d.Status == *change.Status, nil
}

// carriedOut holds the answer against what was sent.
func carriedOut(sent apiclient.DiscoveryDomainUpdate, got apiclient.DiscoveryDomain) error {
	if sent.Status != nil && got.Status != *sent.Status {
		return transient(fmt.Errorf("the API answered the PATCH with status %.20q instead of %q", string(got.Status), string(*sent.Status)))
	}
	if differ(sent.UseForOrganizationDiscovery, got.UseForOrganizationDiscovery) {
		return transient(fmt.Errorf("the API answered the PATCH with use_for_organization_discovery %t instead of %t", *got.UseForOrganizationDiscovery, *sent.UseForOrganizationDiscovery))
	}
	return nil
}
