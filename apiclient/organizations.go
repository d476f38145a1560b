package apiclient

import (
	"context"
	"iter"
	"net/url"
)

const organizationsPath = "/organizations"

func organizationPath(org string) string { return organizationsPath + "/" + url.PathEscape(org) }

// Organization is one organization of the tenant. Only its ID is always there.
type Organization struct {
	ID          string `json:"id"`
	Name        string `json:"name,omitempty"`
	DisplayName string `json:"display_name,omitempty"`
}

func (o Organization) identifier() string { return o.ID }

func (o Organization) check() error { return wantID("id", o.ID) }

var organizations = list{operation: OpListOrganizations, path: organizationsPath, member: "organizations"}

// Organizations lists the organizations of the tenant, in the service's order,
// a hundred a request. A record outside the specification comes with a
// *[RecordError], and the list goes on; any other error ends it.
func (c *Client) Organizations(ctx context.Context) iter.Seq2[Organization, error] {
	return all[Organization](ctx, c, organizations)
}

// OrganizationsPage is one page of [Client.Organizations], of at most a hundred: the
// first, or the one that begins at the checkpoint from. next is that of the page
// after it, empty where there is none. Whoever follows the checkpoints sees to it
// that they come to an end.
func (c *Client) OrganizationsPage(ctx context.Context, from string) (page []Listed[Organization], next string, err error) {
	page, next, _, err = pageOf[Organization](ctx, c, organizations, from)
	return page, next, err
}
