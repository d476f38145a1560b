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

func (o Organization) check() error { return wantID("id", o.ID) }

// Organizations lists the organizations of the tenant, in the service's order,
// a hundred a request.
func (c *Client) Organizations(ctx context.Context) iter.Seq2[Organization, error] {
	return list(ctx, c, OpListOrganizations, organizationsPath, "organizations", Organization.check)
}
