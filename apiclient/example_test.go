package apiclient_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"orgops/apiclient"
	"orgops/apiclient/schema"
)

// exampleServer starts a Management API with two organizations, of which one has a domain.
func exampleServer() *httptest.Server {
	const domain = `{"id":"ord_1","domain":"northwind.example","status":"%s","use_for_organization_discovery":true,` +
		`"verification_txt":"47645bc6dd646544","verification_host":"_ss-verification.org_1.northwind.example"}`
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v2/organizations", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("from") == "" {
			fmt.Fprint(w, `{"organizations":[{"id":"org_1","name":"northwind"}],"next":"2"}`)
			return
		}
		fmt.Fprint(w, `{"organizations":[{"id":"org_2","name":"contoso"}]}`)
	})
	mux.HandleFunc("PATCH /api/v2/organizations/org_1/discovery-domains/ord_1",
		func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, domain, "verified")
		})
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "2")
		w.WriteHeader(http.StatusTooManyRequests)
		fmt.Fprint(w, `{"statusCode":429,"error":"Too Many Requests","message":"Global limit has been reached"}`)
	})
	return httptest.NewServer(mux)
}

func exampleClient(origin string) *apiclient.Client {
	client, err := apiclient.New(apiclient.Config{
		BaseURL: origin + "/api/v2",
		Tokens:  apiclient.StaticToken(apiclient.NewSecret("a token")),
	})
	if err != nil {
		panic(err)
	}
	return client
}

// A page has the checkpoint of the next one.
func ExampleClient_OrganizationsPage() {
	server := exampleServer()
	defer server.Close()
	client := exampleClient(server.URL)
	defer client.CloseIdle()

	from := ""
	for range 1000 { // a hundred organizations each
		page, next, err := client.OrganizationsPage(context.Background(), from)
		if err != nil {
			fmt.Println(err)
			break
		}
		for _, organization := range page {
			fmt.Println(organization.Record.ID, organization.Record.Name)
		}
		if from = next; next == "" {
			break
		}
	}
	// Output:
	// org_1 northwind
	// org_2 contoso
}

// An update sends the members that are set, and returns the record.
func ExampleClient_UpdateDiscoveryDomain() {
	server := exampleServer()
	defer server.Close()
	client := exampleClient(server.URL)
	defer client.CloseIdle()

	domain, err := client.UpdateDiscoveryDomain(context.Background(), "org_1", "ord_1", schema.DiscoveryDomainUpdate{
		Status: new(schema.StatusVerified), UseForOrganizationDiscovery: new(true),
	}, nil)
	fmt.Println(domain.Domain, domain.Status, err)
	// Output:
	// northwind.example verified <nil>
}

// The type of an error shows whether the request was sent, and whether it was answered.
func ExampleClient_RemoveOrganizationClients() {
	server := exampleServer()
	defer server.Close()
	client := exampleClient(server.URL)
	defer client.CloseIdle()

	for _, clients := range [][]string{{}, {"gUfIGaVjR5hT9LkPzXcVbNmQwErTyUiO"}} {
		err := client.RemoveOrganizationClients(context.Background(), "org_2", clients)
		if invalid, ok := errors.AsType[*schema.ValidationError](err); ok {
			fmt.Println("not sent:", invalid)
		}
		if refused, ok := errors.AsType[*apiclient.Error](err); ok {
			fmt.Println("refused:", refused.Status, refused.Message, "- again in", refused.RetryAfter)
		}
	}
	// Output:
	// not sent: clients: want 1 to 100 elements, got 0 elements
	// refused: 429 Global limit has been reached - again in 2s
}

// A template's request is parsed strictly: each fault is reported with its path.
func ExampleDecodeTemplateRequest() {
	_, err := schema.DecodeTemplateRequest([]byte(`{
		"name": "Age check", "type": "mdl", "dialect": "simplified/1.0", "well_known_trusted_issuers": "AAMVA",
		"presentation": {"org.iso.18013.5.1.mDL": {"org.iso.18013.5.1": {"age_in_years": true, "shoe_size": true}}}
	}`))
	fmt.Println(strings.ReplaceAll(err.Error(), "; ", "\n"))
	// Output:
	// presentation["org.iso.18013.5.1.mDL"]["org.iso.18013.5.1"].shoe_size: is not a claim that the specification knows, got true
	// well_known_trusted_issuers: must match ^aamva$, got "AAMVA"
}
