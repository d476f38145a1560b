package scan

import (
	"context"
	"time"

	"orgops/apiclient/schema"
	"orgops/internal/discovery"
	"orgops/internal/ledger"
	"orgops/internal/scan/progress"
	"orgops/tasks"
)

// States is the part of [sweep.Store] that a scan needs.
type States interface {
	// Domain returns the state of a domain, by its id; nil: none is stored.
	Domain(ctx context.Context, id string) ([]byte, error)
}

// swept searches for the domains that a sweep checks. Its rows are of kind domain:recheck.
type swept struct{ states States }

// row returns the row of a verified domain, and of another one if the sweep is to prove
// these or the domain has a state: a sweep may have set it to pending. A record outside
// the specification may be verified unless it reads as pending.
func (s swept) row(ctx context.Context, p progress.Scan, organization string, l listed,
	_ time.Time) (*ledger.FoundRow, error) {
	// Whether the sweep checks it.
	d := discovery.Of(organization, l.Record)
	wanted := d.IsVerified() || l.Err != nil
	if d.Status == schema.StatusPending || (l.Err == nil && !d.IsVerified()) {
		var err error
		if wanted, err = s.wantsPending(ctx, p, d.ID); err != nil {
			return nil, err
		}
	}
	if !wanted {
		return nil, nil
	}

	// The record. Of one that cannot be checked the row has the members that name it.
	bad := outsideSpec(organization, l)
	if bad == nil {
		bad = tasks.CheckRecord(d)
	}
	prove := p.Pending && !d.IsVerified()
	if bad != nil {
		d = discovery.Domain{ID: name(d.ID), Name: name(d.Name), Status: schema.DomainStatus(name(string(d.Status)))}
		prove = false
	}

	// The row, and when it is due.
	row, err := found(organization, tasks.RecheckRow{
		OrganizationID:    organization,
		DiscoveryDomainID: d.ID,
		ScannedRecord:     tasks.Scanned(d),
		Prove:             prove,
		Tick:              p.Tick,
	}, bad)
	if due := p.Due(d.ID); err == nil && bad == nil && due > 0 {
		row.Due = time.Unix(due, 0).UTC()
	}
	return row, err
}

func (s swept) wantsPending(ctx context.Context, p progress.Scan, domain string) (bool, error) {
	if p.Pending || tasks.CheckDomainID(domain) != nil {
		return p.Pending, nil // a record without an id has no state
	}
	state, err := s.states.Domain(ctx, domain)
	return state != nil, err
}
