package apiclient_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"orgops/apiclient"
	"orgops/apiclient/schema"
)

func TestEveryMethodChecksItsIDs(t *testing.T) {
	const organization = `organization_id: want 1 to 128 letters, digits, _, | or -, got "a/b"`
	const domain = `discovery_domain_id: want 1 to 128 letters, digits, _, | or -, got "a/b"`
	ctx := t.Context()
	for _, tc := range []struct {
		name string
		call func(c *apiclient.Client) error
		want []string
	}{
		{"update", func(c *apiclient.Client) error {
			_, err := c.UpdateDiscoveryDomain(ctx, "a/b", "a/b",
				schema.DiscoveryDomainUpdate{UseForOrganizationDiscovery: new(true)}, nil)
			return err
		}, []string{organization, domain}},
		{"update nothing", func(c *apiclient.Client) error {
			_, err := c.UpdateDiscoveryDomain(ctx, "a/b", "a", schema.DiscoveryDomainUpdate{}, nil)
			return err
		}, []string{organization, "update: want at least one of status, use_for_organization_discovery, got {}"}},
		{"get", func(c *apiclient.Client) error {
			_, err := c.DiscoveryDomain(ctx, "a/b", "a/b")
			return err
		}, []string{organization, domain}},
		{"list domains", func(c *apiclient.Client) error { return drain(onePage(c.DiscoveryDomainsPage(ctx, "a/b", ""))) },
			[]string{organization}},
		{"list organizations of a client", func(c *apiclient.Client) error {
			return drain(onePage(c.OrganizationsPageFor(ctx, "a/b", "")))
		}, []string{`client_id: want 1 to 128 letters, digits, _, | or -, got "a/b"`}},
		{"remove", func(c *apiclient.Client) error { return c.RemoveOrganizationClients(ctx, "a/b", []string{"a"}) },
			[]string{organization}},
		{"remove nothing", func(c *apiclient.Client) error { return c.RemoveOrganizationClients(ctx, "a/b", nil) },
			[]string{organization, "clients: want 1 to 100 elements, got 0 elements"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := serve(t, answer(500, ""))
			if diff := cmp.Diff(tc.want, broken(t, tc.call(a.client(t)))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if n := len(a.asked()); n != 0 {
				t.Errorf("%d requests sent", n)
			}
		})
	}
}

func TestClientRules(t *testing.T) {
	of := func(n int) []string { return slices.Repeat([]string{"client"}, n) }
	for _, tc := range []struct {
		name    string
		clients []string
		want    []string
	}{
		{"1", of(1), nil},
		{"100", of(100), nil},
		{"none", nil, []string{"clients: want 1 to 100 elements, got 0 elements"}},
		{"101", of(101), []string{"clients: want 1 to 100 elements, got 101 elements"}},
		{"two at fault", []string{"a", "", "b", "c d"}, []string{
			`clients[1]: want 1 to 128 letters, digits, _, | or -, got ""`,
			`clients[3]: want 1 to 128 letters, digits, _, | or -, got "c d"`,
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := serve(t, answer(204, "")).client(t).RemoveOrganizationClients(t.Context(), orgID, tc.clients)
			if diff := cmp.Diff(tc.want, broken(t, err)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestRemovalLimits(t *testing.T) {
	for _, tc := range []struct {
		n    int
		sent bool
	}{{0, false}, {1, true}, {100, true}, {101, false}} {
		t.Run(fmt.Sprint(tc.n), func(t *testing.T) {
			a := serve(t, answer(204, ""))
			err := a.client(t).RemoveOrganizationClients(t.Context(), orgID, slices.Repeat([]string{"c"}, tc.n))
			if sent := len(a.asked()) == 1; sent != tc.sent || (err == nil) != tc.sent {
				t.Errorf("sent %v, error %v; want sent %v", sent, err, tc.sent)
			}
		})
	}
}
