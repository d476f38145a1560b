package apiclient_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"orgops/apiclient"
)

func TestIDRules(t *testing.T) {
	const rule = "want 1 to 128 letters, digits, _, | or -"
	for _, tc := range []struct{ name, id, want string }{
		{"one character", "a", ""},
		{"every sort", "Az09_|-", ""},
		{"128", strings.Repeat("a", 128), ""},
		{"129", strings.Repeat("a", 129), rule + `, got "` + strings.Repeat("a", 100) + `"…`},
		{"empty", "", rule + `, got ""`},
		{"a slash", "a/b", rule + `, got "a/b"`},
		{"dots", "..", rule + `, got ".."`},
		{"escaped", "a%2Fb", rule + `, got "a%2Fb"`},
		{"a question mark", "a?b", rule + `, got "a?b"`},
		{"a last newline", "a\n", rule + `, got "a\n"`},
		{"NUL", "a\x00", rule + `, got "a\x00"`},
		{"beyond ASCII", "ä", rule + `, got "ä"`},
		{"invisible", "a\u202eb", rule + `, got "a\u202eb"`},
		{"no UTF-8", "a\xff", rule + `, got "a\xff"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			want := tc.want
			if want != "" {
				want = "organization_id: " + want
			}
			got := strings.Join(broken(t, apiclient.CheckID("organization_id", tc.id)), "; ")
			if got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

func TestMistakenIDs(t *testing.T) {
	const swapped = " (are the two swapped?)"
	for _, tc := range []struct{ field, id, want string }{
		{
			"organization_id", "ord_NTC6ExXjNUM91N94wxGrPQ",
			"want an organization's identifier, not a discovery domain's" + swapped,
		},
		{
			"discovery_domain_id", "org_2iEQW5K6I4KggeE5",
			"want a discovery domain's identifier, not an organization's" + swapped,
		},
		{"discovery_domain_id", "example.com", "want an identifier, such as ord_NTC6ExXjNUM91N94wxGrPQ, not a name"},
		{"organization_id", "acme.example", "want an identifier, such as org_2iEQW5K6I4KggeE5, not a name"},
		{"clients[0]", "a.b", "want 1 to 128 letters, digits, _, | or -"},
		{"clients[0]", "org_a", ""},
	} {
		want := tc.want
		if want != "" {
			want = tc.field + ": " + want + `, got "` + tc.id + `"`
		}
		if got := strings.Join(broken(t, apiclient.CheckID(tc.field, tc.id)), "; "); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

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
				apiclient.DiscoveryDomainUpdate{UseForOrganizationDiscovery: new(true)}, nil)
			return err
		}, []string{organization, domain}},
		{"update nothing", func(c *apiclient.Client) error {
			_, err := c.UpdateDiscoveryDomain(ctx, "a/b", "a", apiclient.DiscoveryDomainUpdate{}, nil)
			return err
		}, []string{organization, "update: want at least one of status, use_for_organization_discovery, got {}"}},
		{"get", func(c *apiclient.Client) error {
			_, err := c.DiscoveryDomain(ctx, "a/b", "a/b")
			return err
		}, []string{organization, domain}},
		{"list domains", func(c *apiclient.Client) error { return drain(onePage(c.DiscoveryDomainsPage(ctx, "a/b", ""))) },
			[]string{organization}},
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

func TestValidationErrorIsBounded(t *testing.T) {
	e := &apiclient.ValidationError{}
	for range 1000 {
		e.Fields = append(e.Fields, apiclient.FieldError{Field: "f", Rule: "r", Value: "v"})
	}
	if got := e.Error(); len(got) > 2000 || !strings.HasSuffix(got, "; and 900 more") {
		t.Errorf("%d bytes, ending in %q", len(got), got[len(got)-20:])
	}
	if _, ok := errors.AsType[*apiclient.ValidationError](fmt.Errorf("wrapped: %w", e)); !ok {
		t.Error("not reached through a wrap")
	}
}

// TestUnknown has requests of a newer version, and invalid ones.
func TestUnknown(t *testing.T) {
	const good = `{"name":"n","type":"t","dialect":"simplified/1.0","presentation":{"org.iso.18013.5.1.mDL":{"org.iso.18013.5.1":{}}},"well_known_trusted_issuers":"aamva"}`
	for body, want := range map[string]bool{
		strings.Replace(good, `"type"`, `"colour":"red","type"`, 1):                true,
		strings.Replace(good, `{}`, `{"shoe_size":true}`, 1):                       true,
		strings.NewReplacer(`"t"`, `""`, `{}`, `{"shoe_size":true}`).Replace(good): false,
		strings.Replace(good, `"n"`, `""`, 1):                                      false,
		`[]`:                                                                       false,
	} {
		_, err := apiclient.DecodeTemplateRequest([]byte(body))
		invalid, ok := errors.AsType[*apiclient.ValidationError](err)
		if !ok || invalid.Unknown() != want {
			t.Errorf("%s: %v, unknown: want %t", body, err, want)
		}
	}
}
