package view

import (
	"context"
	"time"

	"orgops/internal/actions"
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
	if err := t.view.Organization(organization); err != nil {
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

// Find returns the domains that a query selects of those of the user: see [status.Find]. A tenant
// that is not the user's, or does not exist, is a [NotFoundError].
func (v View) Find(ctx context.Context, q status.DomainQuery) (status.Found, error) {
	if q.Tenant != "" {
		if _, err := v.Tenant(q.Tenant); err != nil {
			return status.Found{}, err
		}
	}
	q.InTenant = v.ofTenant
	keep := q.Keep
	q.Keep = func(k status.KnownDomain) bool {
		return v.ofOrganization(k.Organization) && (keep == nil || keep(k))
	}
	found, err := status.Find(ctx, v.redis, q)
	return found, v.noTenant(err)
}

// NameOf returns the name of the user's domain of that id; empty: it is not known.
func (t Tenant) NameOf(ctx context.Context, id string) string {
	found, err := t.view.Find(ctx, status.DomainQuery{Tenant: t.name, ID: id, Most: 1})
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
// [actions.CheckDomain]. giveUp is that of a row that is submitted; 0: the tenant's.
func (r *Report) CheckNow(ctx context.Context, giveUp time.Duration) error {
	return actions.CheckDomain(ctx, r.view.redis, r.view.ledger, &r.DomainReport, actions.Requester{
		Caller: r.view.author("").Name, GiveUp: giveUp, Link: r.view.user.Name == web.Link,
	})
}
