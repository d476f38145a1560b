package apiclient

import (
	"context"
	"net/http"
	"net/url"

	"orgops/apiclient/schema"
)

const organizationsPath = "/organizations"

func organizationPath(org string) string { return organizationsPath + "/" + url.PathEscape(org) }

// OrganizationsPage returns one page of the tenant's organizations, of at most a hundred, in
// the service's order: the first, or the one at the checkpoint from. next is the checkpoint
// of the next page, empty after the last. The caller must bound the number of pages that it
// follows.
func (c *Client) OrganizationsPage(ctx context.Context,
	from string) (page []Listed[schema.Organization], next string, err error) {
	page, next, _, err = pageOf[schema.Organization](ctx, c, list{operation: schema.OpListOrganizations,
		path: organizationsPath, member: "organizations"}, from)
	return page, next, err
}

// OrganizationsPageFor returns a page as [Client.OrganizationsPage] does, of organizations that say
// whether they have a client. A tenant of which no organization does may not know the parameter,
// which the vendor calls early access: the caller must not take that for none.
func (c *Client) OrganizationsPageFor(ctx context.Context,
	client, from string) (page []Listed[schema.OrganizationOf], next string, err error) {
	page, next, _, err = pageOf[schema.OrganizationOf](ctx, c, list{operation: schema.OpListOrganizations,
		path: organizationsPath, member: "organizations", client: client,
		invalid: schema.Invalid(schema.AppendID(nil, "client_id", client))}, from)
	return page, next, err
}

// RemoveOrganizationClients removes 1 to 100 clients from an organization (DELETE with a
// body, specification 4.2): all of them or, after an error of the API, none. It is
// idempotent, and succeeds for clients that are not associated. Any 2xx is success,
// whatever its body, except HTML, which the API does not send.
func (c *Client) RemoveOrganizationClients(ctx context.Context, org string, clients []string) error {
	k := request{
		operation: schema.OpRemoveOrganizationClients,
		method:    http.MethodDelete,
		path:      organizationPath(org) + "/clients",
		body:      map[string][]string{"clients": clients},
		invalid:   schema.Invalid(schema.AppendClients(schema.AppendID(nil, "organization_id", org), clients)),
	}
	_, err := c.do(ctx, k)
	return err
}
