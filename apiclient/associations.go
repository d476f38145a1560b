package apiclient

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
)

// OrganizationClient is a client (application) that is associated with an
// organization.
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

// RemoveOrganizationClients takes 1 to 100 clients from an organization (DELETE
// with a body, specification 4.2): all of them or, on an error of the API, none.
// It is idempotent, and succeeds for a client that is not associated. Any 2xx is
// success, whatever its body, but for a page: that one a proxy made, or a portal
// that wants somebody to log in, and nobody was removed.
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

// OrganizationClients lists the clients of an organization, as [Client.Organizations]
// lists the organizations.
func (c *Client) OrganizationClients(ctx context.Context, org string) iter.Seq2[OrganizationClient, error] {
	return all[OrganizationClient](ctx, c, list{
		operation: OpListOrganizationClients, path: clientsPath(org), member: "clients", invalid: CheckID("organization_id", org),
	})
}

func clientsPath(org string) string { return organizationPath(org) + "/clients" }
