package tasks

// PATCH is idempotent (specification 4.1): a second run sets what is set.

import (
	"context"
	"errors"
	"fmt"

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

func (h *update) process(ctx context.Context, job Job, p UpdatePayload) (Result, error) {
	if p.Status != nil && *p.Status == apiclient.StatusVerified && !h.cfg.AllowUnproven {
		return Result{}, refused("status verified is not set without a proof: hand the domain in with `enqueue domains verify`")
	}
	change, outcome := p.change(), Done
	if change.Status != nil && change.UseForOrganizationDiscovery == nil {
		same, err := h.readFlag(ctx, job, p, &change)
		if err != nil {
			return Result{}, err
		}
		if same {
			outcome = Unchanged
		}
	}
	answer, err := h.cfg.API.UpdateDiscoveryDomain(ctx, p.OrganizationID, p.DiscoveryDomainID, change)
	if err != nil {
		return Result{}, err
	}
	return Result{Outcome: outcome}, carriedOut(change, answer)
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
		return transient(fmt.Errorf("the API answered the PATCH with status %.20q, sent was %q", string(got.Status), string(*sent.Status)))
	}
	if differ(sent.UseForOrganizationDiscovery, got.UseForOrganizationDiscovery) {
		return transient(fmt.Errorf("the API answered the PATCH with use_for_organization_discovery %t, sent was %t", *got.UseForOrganizationDiscovery, *sent.UseForOrganizationDiscovery))
	}
	return nil
}
