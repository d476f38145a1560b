package apiclient

import (
	"context"
	"net/http"
	"net/url"

	"orgops/apiclient/schema"
	"orgops/internal/untrusted"
)

// maxStatus bounds the status in the log, in characters.
const maxStatus = 64

// UpdateDiscoveryDomain changes status, flag or both (PATCH, specification 4.1) and returns
// the updated record. It is idempotent. Neither the client nor the service proves a domain
// that is set to verified: the caller must.
func (c *Client) UpdateDiscoveryDomain(ctx context.Context, org, id string,
	u schema.DiscoveryDomainUpdate, intent Intent) (schema.DiscoveryDomain, error) {
	k := domainRequest(schema.OpUpdateDiscoveryDomain, http.MethodPatch, org, id)
	k.intent = intent
	k.body = u
	k.invalid = schema.Invalid(u.Broken(checkDomainIDs(org, id)))
	return c.discoveryDomain(ctx, k, id)
}

// DiscoveryDomain reads one record. Reads are eventually consistent: they may return the
// record before its last change.
func (c *Client) DiscoveryDomain(ctx context.Context, org, id string) (schema.DiscoveryDomain, error) {
	return c.discoveryDomain(ctx, domainRequest(schema.OpGetDiscoveryDomain, http.MethodGet, org, id), id)
}

func checkDomainIDs(org, id string) []schema.FieldError {
	return schema.AppendID(schema.AppendID(nil, "organization_id", org), "discovery_domain_id", id)
}

func domainRequest(operation, method, org, id string) request {
	return request{
		operation: operation,
		method:    method,
		path:      domainsPath(org) + "/" + url.PathEscape(id),
		limit:     maxRecordBytes,
		invalid:   schema.Invalid(checkDomainIDs(org, id)),
	}
}

func (c *Client) discoveryDomain(ctx context.Context, k request, id string) (schema.DiscoveryDomain, error) {
	d, _, err := call(ctx, c, k, func(d schema.DiscoveryDomain, _ answer) error { return d.CheckIs(id) })
	if err == nil {
		c.report(ctx, d)
	}
	return d, err
}

// report logs the first status that the specification does not have.
func (c *Client) report(ctx context.Context, d schema.DiscoveryDomain) {
	if !d.Status.Known() {
		c.unknown.Do(func() {
			c.cfg.Logger.WarnContext(ctx, "the API has a status of domains that is not in its specification: it counts as pending",
				"status", untrusted.Plain(string(d.Status), maxStatus), "discovery_domain_id", d.ID)
		})
	}
}

// DiscoveryDomainsPage returns one page of an organization's domains, as
// [Client.OrganizationsPage] does of the organizations.
func (c *Client) DiscoveryDomainsPage(ctx context.Context,
	org, from string) (page []Listed[schema.DiscoveryDomain], next string, err error) {
	l := list{operation: schema.OpListDiscoveryDomains, path: domainsPath(org), member: "domains",
		invalid: schema.CheckID("organization_id", org)}
	page, next, _, err = pageOf[schema.DiscoveryDomain](ctx, c, l, from)
	for _, d := range page {
		if d.Err == nil {
			c.report(ctx, d.Record)
		}
	}
	return page, next, err
}

func domainsPath(org string) string { return organizationPath(org) + "/discovery-domains" }
