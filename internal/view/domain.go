package view

import (
	"context"
	"time"

	"orgops/internal/status"
	"orgops/internal/web"
)

// Domain is a discovery domain of an organization of the user, by its ids. There may be none.
type Domain struct {
	status.DomainName

	view View
}

// Domain returns the domain of those ids, or a [NotFoundError]. It reads nothing.
func (t Tenant) Domain(organization, id string) (Domain, error) {
	if err := t.Organization(organization); err != nil {
		return Domain{}, err
	}
	return Domain{status.DomainName{Tenant: t.name, Organization: organization, ID: id}, t.view}, nil
}

// In returns its tenant.
func (d Domain) In() Tenant { return Tenant{d.view, d.Tenant} }

// State returns the stored state of the domain: see [status.DomainOf]. It names no organization
// that is not the user's.
func (d Domain) State(ctx context.Context, rows int) (status.Domain, error) {
	known, err := status.DomainOf(ctx, d.view.redis, d.view.ledger, d.DomainName, rows)
	if !d.view.ofOrganization(known.Other) {
		known.Other = ""
	}
	return known, err
}

// Find returns the user's domains of the tenant that a text means, and for which keep is true: see
// [status.Find].
func (t Tenant) Find(ctx context.Context, text string, n int,
	keep func(status.KnownDomain) bool) (status.Found, error) {
	return status.Find(ctx, t.view.ledger, t.name, text, n, func(k status.KnownDomain) bool {
		return t.view.ofOrganization(k.Organization) && keep(k)
	})
}

// FindOf returns the domains of an organization, as [Tenant.Find] does: see [status.FindOf].
func (t Tenant) FindOf(ctx context.Context, organization string, n int) (status.Found, error) {
	return status.FindOf(ctx, t.view.ledger, t.name, organization, n, func(k status.KnownDomain) bool {
		return t.view.ofOrganization(k.Organization)
	})
}

// Swept returns the state of the user's domain of that id that sweeps have stored; ok is false if
// there is none.
func (t Tenant) Swept(ctx context.Context, id string) (d status.SweptDomain, ok bool, err error) {
	d, ok, err = status.SweptDomainOf(ctx, t.view.redis, t.name, id)
	if !ok || !t.view.ofOrganization(d.Organization) {
		return status.SweptDomain{}, false, err
	}
	return d, true, err
}

// NameOf returns the name of the user's domain of that id; empty: it is not known.
func (t Tenant) NameOf(ctx context.Context, id string) string {
	found, err := t.Find(ctx, id, 1, func(k status.KnownDomain) bool { return k.ID == id })
	if err != nil || len(found.Domains) == 0 {
		return ""
	}
	return found.Domains[0].Name
}

// Report is the state of a domain of the user.
type Report struct {
	status.DomainReport

	view View
}

// Report returns the state of the user's domain of that id in the index of names, or a
// [NotFoundError].
func (t Tenant) Report(ctx context.Context, id string) (Report, error) {
	d, err := status.Report(ctx, t.view.redis, t.view.ledger, t.name, id)
	if err := missing(err, t.view.ofOrganization(d.Organization), "domain", id); err != nil {
		return Report{}, err
	}
	return Report{d, t.view}, nil
}

// CheckNow has the domain checked, in the name of the user, and says in the report when: see
// [status.CheckNow]. giveUp is that of a row that is submitted; 0: the tenant's.
func (r *Report) CheckNow(ctx context.Context, giveUp time.Duration) error {
	return status.CheckNow(ctx, r.view.redis, r.view.ledger, &r.DomainReport, status.Requester{
		Caller: r.view.author("").Name, GiveUp: giveUp, Link: r.view.user.Name == web.Link,
	})
}
