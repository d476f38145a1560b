package apiclient_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"orgops/apiclient"
	"orgops/apiclient/schema"
	"orgops/internal/sandbox"
)

func TestFormOnTheWire(t *testing.T) {
	yes := true
	verified := schema.StatusVerified
	claims := map[string]bool{"family_name": true, "portrait": false}
	for _, tc := range []struct {
		name string
		call func(c *apiclient.Client) error
		want string
	}{
		{"update", func(c *apiclient.Client) error {
			_, err := c.UpdateDiscoveryDomain(t.Context(), orgID, domainID,
				schema.DiscoveryDomainUpdate{Status: &verified, UseForOrganizationDiscovery: &yes}, nil)
			return err
		}, "status=verified&use_for_organization_discovery=true"},
		{"remove", func(c *apiclient.Client) error {
			return c.RemoveOrganizationClients(t.Context(), orgID, []string{"a", "b|c"})
		}, "clients%5B%5D=a&clients%5B%5D=b%7Cc"},
		{"create", func(c *apiclient.Client) error {
			r := goodTemplate()
			r.Name, r.Presentation.Claims = "ü &=", claims
			_, err := c.CreateTemplate(t.Context(), r, nil)
			return err
		}, "dialect=simplified%2F1.0&name=%C3%BC+%26%3D" +
			"&presentation%5Borg.iso.18013.5.1.mDL%5D%5Borg.iso.18013.5.1%5D%5Bfamily_name%5D=true" +
			"&presentation%5Borg.iso.18013.5.1.mDL%5D%5Borg.iso.18013.5.1%5D%5Bportrait%5D=false" +
			"&type=mdl&well_known_trusted_issuers=aamva"},
		{"create without claims", func(c *apiclient.Client) error {
			r := goodTemplate()
			r.Presentation.Claims = nil
			_, err := c.CreateTemplate(t.Context(), r, nil)
			return err
		}, "dialect=simplified%2F1.0&name=" + goodTemplate().Name +
			"&presentation%5Borg.iso.18013.5.1.mDL%5D%5Borg.iso.18013.5.1%5D=" +
			"&type=mdl&well_known_trusted_issuers=aamva"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := serve(t, answer(200, domainRecord))
			if err := tc.call(a.client(t, func(cfg *apiclient.Config) { cfg.Body = apiclient.BodyForm })); err != nil {
				t.Fatal(err)
			}
			got := a.asked()[0]
			if got.Body != tc.want || a.headers[0].Get("Content-Type") != "application/x-www-form-urlencoded" {
				t.Errorf("%s\ngot  %s\nwant %s", a.headers[0].Get("Content-Type"), got.Body, tc.want)
			}
		})
	}
}

// randomText has every class of characters, and sometimes the maximum length of the
// specification: lengths are in code points, in either format.
func randomText(r *rand.Rand, most int) string {
	alphabet := []rune("aZ09 +&=%[]\"\\<>/ü€\U0001F600\u00e9\u200b\n\x00é;#?")
	n := 1 + r.IntN(12)
	if r.IntN(4) == 0 {
		n = most
	}
	var b strings.Builder
	for range n {
		b.WriteRune(alphabet[r.IntN(len(alphabet))])
	}
	return b.String()
}

func randomTemplate(r *rand.Rand) schema.TemplateRequest {
	t := schema.TemplateRequest{Name: randomText(r, 255), Type: randomText(r, 255), Dialect: "simplified/1.0",
		WellKnownTrustedIssuers: "aamva"}
	for _, claim := range []string{"birth_date", "family_name", "nationality", "portrait"} {
		switch r.IntN(3) {
		case 0:
			if t.Presentation.Claims == nil {
				t.Presentation.Claims = map[string]bool{}
			}
			t.Presentation.Claims[claim] = r.IntN(2) == 0
		case 1:
			if r.IntN(5) == 0 {
				t.Presentation.Claims = nil // none at all, often enough
			}
		}
	}
	if r.IntN(2) == 0 {
		ca := randomText(r, 4096)
		t.CustomCertificateAuthority = &ca
	}
	return t
}

// outcome returns the state of the sandbox and the error of a request, as text.
func outcome(t *testing.T, box *sandbox.Sandbox, err error) string {
	t.Helper()
	templates := box.Templates()
	for i := range templates {
		templates[i].ID = "" // and times: of the server
	}
	state, jsonErr := json.Marshal(map[string]any{"clients": box.Clients(orgID), "domains": box.Domains(orgID)})
	if jsonErr != nil {
		t.Fatal(jsonErr)
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%v\n%s\n", err, state)
	for _, one := range templates {
		fmt.Fprintf(&text, "%q %q %v %v\n", one.Name, one.Type, one.Claims, one.CustomCertificateAuthority != nil)
		if one.CustomCertificateAuthority != nil {
			fmt.Fprintf(&text, "%q\n", *one.CustomCertificateAuthority)
		}
	}
	return text.String()
}

// TestFormSaysWhatJSONSays sends random requests to two tenants, by forms and by JSON, and
// requires the same results.
func TestFormSaysWhatJSONSays(t *testing.T) {
	const requests = 60
	var boxes [2]*sandbox.Sandbox
	var clients [2]*apiclient.Client
	for i, format := range []apiclient.BodyFormat{apiclient.BodyForm, apiclient.BodyJSON} {
		box := startSandbox(t)
		boxes[i] = box
		clients[i] = newClient(t, box.AuthURL(), func(cfg *apiclient.Config) {
			cfg.BaseURL, cfg.Body, cfg.Tokens = box.BaseURL(), format, apiclient.StaticToken(apiclient.NewSecret(box.Token()))
		})
	}
	r := rand.New(rand.NewPCG(1, 2))
	for n := range requests {
		seed := r.Uint64()
		var got [2]string
		for i, c := range clients {
			r := rand.New(rand.NewPCG(seed, 3))
			request := randomTemplate(r)
			request.Name = fmt.Sprintf("%03d", n) + string([]rune(request.Name)[:min(len([]rune(request.Name)), 252)])
			created, err := c.CreateTemplate(t.Context(), request, nil)
			if err == nil {
				if differ := request.Differences(created); len(differ) > 0 {
					t.Errorf("%s: differs in %v", []string{"form", "json"}[i], differ)
				}
			}
			got[i] = outcome(t, boxes[i], err)
		}
		if diff := cmp.Diff(got[0], got[1]); diff != "" {
			t.Fatalf("request %d (-form +json):\n%s", n, diff)
		}
	}
	if n := len(boxes[0].Templates()); n != requests {
		t.Errorf("%d templates of %d", n, requests)
	}
	for _, log := range boxes[0].Requests() {
		if log.Method == http.MethodPost && strings.HasPrefix(log.Body, "{") {
			t.Errorf("JSON was sent: %s", log.Body)
		}
	}
}
