package scan

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"orgops/apiclient"
	"orgops/internal/ledger"
	"orgops/internal/sweep"
)

// States is the part of [sweep.Store] that a scan needs.
type States interface {
	// Memory returns the state of a domain, by its id; nil: none is stored.
	Memory(ctx context.Context, domainID string) ([]byte, error)
}

// Swept searches for the domains that a sweep checks. Its rows are of kind domain:recheck.
type Swept struct {
	States States
}

func (Swept) class() Class { return ForSweep }

// row returns the row of a verified domain, and of a pending one if the sweep is to prove
// these or the domain has a state: a sweep may have set it to pending. A record outside
// the specification may be verified unless it reads as pending.
func (s Swept) row(ctx context.Context, p sweep.Progress, organization string, l listed, _ time.Time) (*ledger.FoundRow, error) {
	d := l.Record
	wanted := d.Status == apiclient.StatusVerified || l.Err != nil
	if d.Status == apiclient.StatusPending {
		var err error
		if wanted, err = s.wantsPending(ctx, p, d.ID); err != nil {
			return nil, err
		}
	}
	if !wanted {
		return nil, nil
	}
	bad := outsideSpec(organization, l)
	if bad == nil {
		bad = checkable(d)
	}
	content, err := json.Marshal(recheckOf(organization, d, p, bad != nil))
	if err != nil {
		return nil, fmt.Errorf("organization %s: write the row of a domain: %w", organization, err)
	}
	if bad != nil {
		return refused(content, bad), nil
	}
	row := &ledger.FoundRow{Content: content}
	if due := p.Due(d.ID); due > 0 {
		row.Due = time.Unix(due, 0).UTC()
	}
	return row, nil
}

func (s Swept) wantsPending(ctx context.Context, p sweep.Progress, domain string) (bool, error) {
	if p.Pending || apiclient.CheckID("discovery_domain_id", domain) != nil {
		return p.Pending, nil // a record without an id has no state
	}
	state, err := s.States.Memory(ctx, domain)
	return state != nil, err
}

// checkable returns why a record cannot be a row; nil: it can.
func checkable(d apiclient.DiscoveryDomain) error {
	if len(d.Domain) > maxDomain {
		return fmt.Errorf("domain: at most %d bytes, got %d", maxDomain, len(d.Domain))
	}
	if d.Status != apiclient.StatusVerified && d.Status != apiclient.StatusPending {
		return fmt.Errorf("status: want verified or pending, got %.20q", string(d.Status))
	}
	return provable(d)
}

// recheckRow is the content of a row of kind domain:recheck: the record as it was listed.
type recheckRow struct {
	OrganizationID              string `json:"organization_id"`
	DiscoveryDomainID           string `json:"discovery_domain_id"`
	Domain                      string `json:"domain"`
	VerificationHost            string `json:"verification_host"`
	VerificationTXT             string `json:"verification_txt"`
	Status                      string `json:"status"`
	UseForOrganizationDiscovery *bool  `json:"use_for_organization_discovery,omitempty"`
	Prove                       bool   `json:"prove,omitempty"`
	Tick                        int64  `json:"tick"`
}

// recheckOf returns the content of a record's row: of a bad one the members that name it.
func recheckOf(organization string, d apiclient.DiscoveryDomain, p sweep.Progress, bad bool) recheckRow {
	if bad {
		return recheckRow{
			OrganizationID: organization, DiscoveryDomainID: name(d.ID), Domain: name(d.Domain), Status: name(string(d.Status)), Tick: p.Tick,
		}
	}
	return recheckRow{
		OrganizationID: organization, DiscoveryDomainID: d.ID, Domain: d.Domain, VerificationHost: d.VerificationHost, VerificationTXT: d.VerificationTXT,
		Status: string(d.Status), UseForOrganizationDiscovery: d.UseForOrganizationDiscovery,
		Prove: p.Pending && d.Status == apiclient.StatusPending, Tick: p.Tick,
	}
}

// SweepProgress returns the progress of a sweep that has not begun, for [ledger.NewRun].
func SweepProgress(o sweep.Order) ([]byte, error) {
	p, err := o.Progress()
	if err != nil {
		return nil, err
	}
	return json.Marshal(p)
}
