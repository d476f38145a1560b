package apiclient

import (
	"context"
	"net/http"
	"net/url"
)

const organizationsPath = "/organizations"

func organizationPath(org string) string { return organizationsPath + "/" + url.PathEscape(org) }

// Organization is an organization of the tenant. Only its ID is always present.
type Organization struct {
	ID   string `json:"id"`
	Name string `json:"name,omitempty"`
}

func (o Organization) identifier() string { return o.ID }

func (o Organization) check() error { return wantID(o.ID) }

// OrganizationsPage returns one page of the tenant's organizations, of at most a hundred, in
// the service's order: the first, or the one at the checkpoint from. next is the checkpoint
// of the next page, empty after the last. The caller must bound the number of pages that it
// follows.
func (c *Client) OrganizationsPage(ctx context.Context,
	from string) (page []Listed[Organization], next string, err error) {
	page, next, _, err = pageOf[Organization](ctx, c, list{operation: OpListOrganizations, path: organizationsPath,
		member: "organizations"}, from)
	return page, next, err
}

// RemoveOrganizationClients removes 1 to 100 clients from an organization (DELETE with a
// body, specification 4.2): all of them or, after an error of the API, none. It is
// idempotent, and succeeds for clients that are not associated. Any 2xx is success,
// whatever its body, except HTML, which the API does not send.
func (c *Client) RemoveOrganizationClients(ctx context.Context, org string, clients []string) error {
	k := request{
		operation: OpRemoveOrganizationClients,
		method:    http.MethodDelete,
		path:      organizationPath(org) + "/clients",
		body:      map[string][]string{"clients": clients},
		invalid:   invalid(checkClients(checkID(nil, "organization_id", org), clients)),
	}
	_, err := c.do(ctx, k)
	return err
}
