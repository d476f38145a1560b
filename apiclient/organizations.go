package apiclient

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
)

const organizationsPath = "/organizations"

func organizationPath(org string) string { return organizationsPath + "/" + url.PathEscape(org) }

func clientsPath(org string) string { return organizationPath(org) + "/clients" }

// Organization is an organization of the tenant. Only its ID is always present.
type Organization struct {
	ID          string `json:"id"`
	Name        string `json:"name,omitempty"`
	DisplayName string `json:"display_name,omitempty"`
}

func (o Organization) identifier() string { return o.ID }

func (o Organization) check() error { return wantID("id", o.ID) }

// OrganizationClient is a client (application) that is associated with an organization.
type OrganizationClient struct {
	ClientID string `json:"client_id"`
}

func (o OrganizationClient) identifier() string { return o.ClientID }

func (o OrganizationClient) check() error { return wantID("client_id", o.ClientID) }

func wantID(member, id string) error {
	if id == "" {
		return errors.New("missing or empty: " + member)
	}
	return nil
}

var organizations = list{operation: OpListOrganizations, path: organizationsPath, member: "organizations"}

// Organizations lists the organizations of the tenant, in the service's order, a hundred
// per request. A record outside the specification comes with a *[RecordError], and the
// list continues; any other error ends it.
func (c *Client) Organizations(ctx context.Context) iter.Seq2[Organization, error] {
	return all[Organization](ctx, c, organizations)
}

// OrganizationsPage returns one page of [Client.Organizations], of at most a hundred: the
// first, or the one at the checkpoint from. next is the checkpoint of the next page, empty
// after the last. The caller must bound the number of pages that it follows.
func (c *Client) OrganizationsPage(ctx context.Context, from string) (page []Listed[Organization], next string, err error) {
	page, next, _, err = pageOf[Organization](ctx, c, organizations, from)
	return page, next, err
}

// OrganizationClients lists the clients of an organization, as [Client.Organizations]
// lists the organizations.
func (c *Client) OrganizationClients(ctx context.Context, org string) iter.Seq2[OrganizationClient, error] {
	return all[OrganizationClient](ctx, c, list{
		operation: OpListOrganizationClients, path: clientsPath(org), member: "clients", invalid: CheckID("organization_id", org),
	})
}

// RemoveOrganizationClients removes 1 to 100 clients from an organization (DELETE with a
// body, specification 4.2): all of them or, after an error of the API, none. It is
// idempotent, and succeeds for clients that are not associated. Any 2xx is success,
// whatever its body, except HTML: that is the answer of a proxy or a login portal, and no
// client was removed.
func (c *Client) RemoveOrganizationClients(ctx context.Context, org string, clients []string) error {
	k := request{
		operation: OpRemoveOrganizationClients,
		method:    http.MethodDelete,
		path:      clientsPath(org),
		body:      map[string][]string{"clients": clients},
		invalid:   invalid(checkClients(checkID(nil, "organization_id", org), clients)),
	}
	a, err := c.do(ctx, k)
	if err == nil && a.isPage() {
		err = k.answerError(a, fmt.Errorf("not an answer of the API but %s", a.describe()))
	}
	return err
}
