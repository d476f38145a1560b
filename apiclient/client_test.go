package apiclient_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"orgops/apiclient"
	"orgops/apiclient/schema"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	testToken = "eyJhbGciOiJSUzI1NiJ9.c2VjcmV0LXBheWxvYWQ.c2lnbmF0dXJlLXNpZ25hdHVyZQ"
	orgID     = "org_0123456789abcdef"
	domainID  = "ord_0123456789abcdefABCDEF"
)

// seen is a request as the server received it.
type seen struct {
	Method, Path, Query, Body string
}

// api is a server under test that records its requests.
type api struct {
	*httptest.Server

	mu       sync.Mutex
	requests []seen
	headers  []http.Header
}

// serve starts a server whose base URL is its URL + "/api/v2"; paths are
// recorded below that.
func serve(t *testing.T, handler http.HandlerFunc) *api {
	t.Helper()
	a := &api{}
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("reading the request: %v", err)
		}
		a.mu.Lock()
		a.requests = append(a.requests, seen{
			Method: r.Method, Path: strings.TrimPrefix(r.URL.EscapedPath(), "/api/v2"),
			Query: r.URL.RawQuery, Body: string(body),
		})
		a.headers = append(a.headers, r.Header.Clone())
		a.mu.Unlock()
		r.Body = io.NopCloser(bytes.NewReader(body))
		handler(w, r)
	}))
	t.Cleanup(a.Close)
	return a
}

func (a *api) asked() []seen {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.requests)
}

func (a *api) client(t *testing.T, settings ...func(*apiclient.Config)) *apiclient.Client {
	t.Helper()
	return newClient(t, a.URL, settings...)
}

func newClient(t *testing.T, origin string, settings ...func(*apiclient.Config)) *apiclient.Client {
	t.Helper()
	cfg := apiclient.Config{
		BaseURL: origin + "/api/v2",
		Tokens:  apiclient.StaticToken(apiclient.NewSecret(testToken)),
	}
	for _, set := range settings {
		set(&cfg)
	}
	c, err := apiclient.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.CloseIdle)
	return c
}

func answer(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// refuse answers with an error of the API.
func refuse(status int, message string) http.HandlerFunc {
	return answer(status, fmt.Sprintf(`{"statusCode":%d,"error":%q,"message":%q}`, status,
		http.StatusText(status), message))
}

// noJWT is the live service's answer to a bearer token that is no JWT.
const noJWT = `{"statusCode":400,"error":"Bad Request","message":"Bad HTTP authentication header format","errorCode":"Bearer"}`

const domainRecord = `{"id":"ord_0123456789abcdefABCDEF","domain":"example.com","status":"verified",` +
	`"use_for_organization_discovery":false,"verification_txt":"0123456789abcdef0123456789abcdef",` +
	`"verification_host":"_ss-verification.org_0123456789abcdef.example.com"}`

func TestBaseURL(t *testing.T) {
	for _, tc := range []struct{ name, url, want string }{
		{"https", "https://tenant.example/api/v2", ""},
		{"with a port", "https://tenant.example:8443/api/v2", ""},
		{"below a prefix", "https://gateway.example/tenant/api/v2", ""},
		{"http on 127.0.0.1", "http://127.0.0.1:8080/api/v2", ""},
		{"http on 127.9.9.9", "http://127.9.9.9/api/v2", ""},
		{"http on ::1", "http://[::1]:80/api/v2", ""},
		{"http on localhost", "http://localhost:80/api/v2", ""},
		{"port 65535", "https://tenant.example:65535/api/v2", ""},
		{"empty", "", "base URL: missing: want https://HOST/api/v2"},
		{"http elsewhere", "http://tenant.example/api/v2",
			`base URL: http is for loopback addresses only, and "tenant.example" is none: want https`},
		{"http on a private address", "http://10.0.0.1/api/v2",
			`base URL: http is for loopback addresses only, and "10.0.0.1" is none: want https`},
		{"another scheme", "ftp://tenant.example/api/v2", `base URL: want https://HOST/…, got the scheme "ftp"`},
		{"no scheme", "tenant.example/api/v2", `base URL: want https://HOST/…, got the scheme ""`},
		{"opaque", "https:tenant.example/api/v2", "base URL: no host in it: want https://HOST/…"},
		{"no host", "https:///api/v2", "base URL: no host in it: want https://HOST/…"},
		{"no path", "https://tenant.example", `base URL: want a path that ends in /api/v2, got ""`},
		{"another path", "https://tenant.example/api/v3", `base URL: want a path that ends in /api/v2, got "/api/v3"`},
		{"a last slash", "https://tenant.example/api/v2/",
			`base URL: want a path that ends in /api/v2, got "/api/v2/": leave the last / out`},
		{"a double slash", "https://tenant.example//api/v2", `base URL: want a plain path, got "//api/v2"`},
		{"dots", "https://tenant.example/x/../api/v2", `base URL: want a plain path, got "/x/../api/v2"`},
		{"escaped", "https://tenant.example/a%2Fb/api/v2", `base URL: want a plain path, got "/a%2Fb/api/v2"`},
		{"port 0", "https://tenant.example:0/api/v2", `base URL: want a port of 1 to 65535, got "0"`},
		{"port 65536", "https://tenant.example:65536/api/v2", `base URL: want a port of 1 to 65535, got "65536"`},
		{"query", "https://tenant.example/api/v2?a=b", "base URL: must not contain a query"},
		{"empty query", "https://tenant.example/api/v2?", "base URL: must not contain a query"},
		{"fragment", "https://tenant.example/api/v2#a", "base URL: must not contain a fragment"},
		{"empty fragment", "https://tenant.example/api/v2#", "base URL: must not contain a fragment"},
		{"credentials", "https://u:hunter2@tenant.example/api/v2", "base URL: must not contain a user or password"},
		{"broken with credentials", "https://u:hunter2@tenant.example:x/api/v2", "base URL: not a URL: want https://HOST/…"},
		{"control character", "https://tenant.example/\x00/api/v2", "base URL: not a URL: want https://HOST/…"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := ""
			if err := apiclient.CheckBaseURL(tc.url); err != nil {
				got = err.Error()
			}
			if got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

func TestDefaultAddresses(t *testing.T) {
	got, err := apiclient.DefaultAudience("https://gateway.example:8443/tenant/api/v2")
	if want := "https://gateway.example:8443/api/v2/"; got != want || err != nil {
		t.Errorf("audience %q, %v, want %q", got, err, want)
	}
	if got, err := apiclient.DefaultAudience("https://tenant.example"); err == nil {
		t.Errorf("audience of a wrong base URL: %q", got)
	}
	for _, auth := range []string{"https://tenant.example", "https://tenant.example/"} {
		if got, want := apiclient.DefaultTokenURL(auth), "https://tenant.example/oauth/token/"; got != want {
			t.Errorf("token URL %q, want %q", got, want)
		}
	}
}

func TestNewRefusesWrongSettings(t *testing.T) {
	good := apiclient.Config{
		BaseURL: "https://tenant.example/api/v2",
		Tokens:  apiclient.StaticToken(apiclient.NewSecret(testToken)),
	}
	wrong := good
	wrong.BaseURL = ""
	if _, err := apiclient.New(wrong); err == nil ||
		err.Error() != "api client: base URL: missing: want https://HOST/api/v2" {
		t.Errorf("without a base URL: %v", err)
	}
	c, err := apiclient.New(good)
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Timeout(); got != 30*time.Second {
		t.Errorf("default timeout %v, want 30s", got)
	}
}

func TestRequestsOnTheWire(t *testing.T) {
	verified := schema.StatusVerified
	for _, tc := range []struct {
		name   string
		status int
		body   string
		call   func(ctx context.Context, c *apiclient.Client) error
		want   seen
	}{
		{
			"patch both", 200, domainRecord,
			func(ctx context.Context, c *apiclient.Client) error {
				_, err := c.UpdateDiscoveryDomain(ctx, orgID, domainID,
					schema.DiscoveryDomainUpdate{Status: &verified, UseForOrganizationDiscovery: new(false)}, nil)
				return err
			},
			seen{Method: "PATCH", Path: "/organizations/" + orgID + "/discovery-domains/" + domainID,
				Body: `{"status":"verified","use_for_organization_discovery":false}`},
		},
		{
			"patch the status alone", 200, domainRecord,
			func(ctx context.Context, c *apiclient.Client) error {
				_, err := c.UpdateDiscoveryDomain(ctx, orgID, domainID, schema.DiscoveryDomainUpdate{Status: &verified}, nil)
				return err
			},
			seen{Method: "PATCH", Path: "/organizations/" + orgID + "/discovery-domains/" + domainID,
				Body: `{"status":"verified"}`},
		},
		{
			"patch the flag alone", 200, domainRecord,
			func(ctx context.Context, c *apiclient.Client) error {
				_, err := c.UpdateDiscoveryDomain(ctx, orgID, domainID,
					schema.DiscoveryDomainUpdate{UseForOrganizationDiscovery: new(true)}, nil)
				return err
			},
			seen{Method: "PATCH", Path: "/organizations/" + orgID + "/discovery-domains/" + domainID,
				Body: `{"use_for_organization_discovery":true}`},
		},
		{
			"get", 200, domainRecord,
			func(ctx context.Context, c *apiclient.Client) error {
				_, err := c.DiscoveryDomain(ctx, "auth0|org", domainID)
				return err
			},
			seen{Method: "GET", Path: "/organizations/auth0%7Corg/discovery-domains/" + domainID},
		},
		{
			"delete with a body", 204, "",
			func(ctx context.Context, c *apiclient.Client) error {
				return c.RemoveOrganizationClients(ctx, orgID, []string{"a", "b"})
			},
			seen{Method: "DELETE", Path: "/organizations/" + orgID + "/clients", Body: `{"clients":["a","b"]}`},
		},
		{
			"create", 201, `{"id":"vct_1"}`,
			func(ctx context.Context, c *apiclient.Client) error {
				_, err := c.CreateTemplate(ctx, goodTemplate(), nil)
				return err
			},
			seen{Method: "POST", Path: "/verifiable-credentials/verification/templates",
				Body: `{"name":"n","type":"mdl","dialect":"simplified/1.0","presentation":{"org.iso.18013.5.1.mDL":{"org.iso.18013.5.1":{}}},"well_known_trusted_issuers":"aamva"}`},
		},
		{
			"create with everything", 201, `{"id":"vct_1"}`,
			func(ctx context.Context, c *apiclient.Client) error {
				r := goodTemplate()
				r.Presentation.Claims = map[string]bool{"portrait": true, "birth_date": false}
				r.CustomCertificateAuthority = new("PEM")
				_, err := c.CreateTemplate(ctx, r, nil)
				return err
			},
			seen{Method: "POST", Path: "/verifiable-credentials/verification/templates",
				Body: `{"name":"n","type":"mdl","dialect":"simplified/1.0","presentation":{"org.iso.18013.5.1.mDL":{"org.iso.18013.5.1":{"birth_date":false,"portrait":true}}},"well_known_trusted_issuers":"aamva","custom_certificate_authority":"PEM"}`},
		},
		{
			"list organizations", 200, `{"organizations":[]}`,
			func(ctx context.Context, c *apiclient.Client) error {
				return drain(onePage(c.OrganizationsPage(ctx, "")))
			},
			seen{Method: "GET", Path: "/organizations", Query: "take=100"},
		},
		{
			"list domains", 200, `{"domains":[]}`,
			func(ctx context.Context, c *apiclient.Client) error {
				return drain(onePage(c.DiscoveryDomainsPage(ctx, orgID, "")))
			},
			seen{Method: "GET", Path: "/organizations/" + orgID + "/discovery-domains", Query: "take=100"},
		},
		{
			"list templates", 200, `{"templates":[]}`,
			func(ctx context.Context, c *apiclient.Client) error { return drain(c.Templates(ctx)) },
			seen{Method: "GET", Path: "/verifiable-credentials/verification/templates", Query: "take=100"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := serve(t, answer(tc.status, tc.body))
			c := a.client(t, func(cfg *apiclient.Config) { cfg.UserAgent = "orgops-test/1" })
			if err := tc.call(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]seen{tc.want}, a.asked()); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
			h := a.headers[0]
			contentType := ""
			if tc.want.Body != "" {
				contentType = "application/json"
			}
			got := []string{h.Get("Authorization"), h.Get("Accept"), h.Get("User-Agent"), h.Get("Content-Type")}
			want := []string{"Bearer " + testToken, "application/json", "orgops-test/1", contentType}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("headers (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAnyTwoHundredIsSuccess(t *testing.T) {
	for _, status := range []int{200, 201, 202, 206, 299} {
		a := serve(t, answer(status, domainRecord))
		c := a.client(t)
		d, err := c.DiscoveryDomain(t.Context(), orgID, domainID)
		if err != nil {
			t.Fatalf("%d: %v", status, err)
		}
		want := schema.DiscoveryDomain{
			ID: domainID, Domain: "example.com", Status: schema.StatusVerified,
			UseForOrganizationDiscovery: new(false),
			VerificationTXT:             "0123456789abcdef0123456789abcdef",
			VerificationHost:            "_ss-verification.org_0123456789abcdef.example.com",
		}
		if diff := cmp.Diff(want, d); diff != "" {
			t.Errorf("%d (-want +got):\n%s", status, diff)
		}
		if err := c.RemoveOrganizationClients(t.Context(), orgID, []string{"a"}); err != nil {
			t.Errorf("%d: removal: %v", status, err)
		}
	}
}

// TestRemovalIgnoresTheBody checks that a removal does not depend on the body: no body turns
// success into failure.
func TestRemovalIgnoresTheBody(t *testing.T) {
	for _, tc := range []struct {
		name    string
		handler http.HandlerFunc
	}{
		{"none", answer(204, "")},
		{"html", answer(200, "<html>")},
		{"endless", endless(200)},
		{"cut", cutShort(200)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := serve(t, tc.handler)
			if err := a.client(t).RemoveOrganizationClients(t.Context(), orgID, []string{"a"}); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestRemovalAnsweredByNothingOfATypeIsDone checks that a gateway may set its default
// Content-Type on a response without a body.
func TestRemovalAnsweredByNothingOfATypeIsDone(t *testing.T) {
	for _, body := range []string{"", "\r\n"} {
		a := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, body)
		})
		if err := a.client(t).RemoveOrganizationClients(t.Context(), orgID, []string{"a"}); err != nil {
			t.Errorf("body %q: %v", body, err)
		}
	}
}

// TestRemovalAnsweredByAPage checks that an HTML page, which is not a response of the API,
// is an error.
func TestRemovalAnsweredByAPage(t *testing.T) {
	for _, media := range []string{"text/html", "text/html; charset=utf-8", "application/xhtml+xml"} {
		a := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", media)
			_, _ = io.WriteString(w, "<html>Please log in")
		})
		err := a.client(t).RemoveOrganizationClients(t.Context(), orgID, []string{"a"})
		wantAnswer(t, err, `but a body of type "`+strings.Split(media, ";")[0]+`"`)
	}
}

// gate is a Gate that records its calls. It refuses if wait returns an error.
type gate struct {
	mu     sync.Mutex
	calls  []string
	wait   func(ctx context.Context, r apiclient.Request) error
	header http.Header
	after  time.Duration
	ended  bool // the context of an Answered had ended
}

func (g *gate) Wait(ctx context.Context, r apiclient.Request) error {
	g.mu.Lock()
	g.calls = append(g.calls, "wait "+r.Operation)
	wait := g.wait
	g.mu.Unlock()
	if wait != nil {
		return wait(ctx, r)
	}
	return nil
}

func (g *gate) Answered(ctx context.Context, operation string, status int, header http.Header, after time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls = append(g.calls, "answered "+operation+" "+http.StatusText(status))
	g.header = header
	g.after = after
	g.ended = g.ended || ctx.Err() != nil
}

type noPermit struct{}

func (noPermit) Error() string { return "no permit within 20s" }

func TestGateSeesEveryRequest(t *testing.T) {
	t.Run("pages", func(t *testing.T) {
		pages := []string{`{"templates":[{"id":"a"}],"next":"n1"}`, `{"templates":[{"id":"b"}]}`}
		a := serve(t, func(w http.ResponseWriter, r *http.Request) {
			body := pages[0]
			if r.URL.Query().Get("from") == "n1" {
				body = pages[1]
			}
			w.Header().Set("X-Ratelimit-Remaining", "7")
			_, _ = io.WriteString(w, body)
		})
		g := &gate{}
		c := a.client(t, func(cfg *apiclient.Config) { cfg.Gate = g })
		if err := drain(c.Templates(t.Context())); err != nil {
			t.Fatal(err)
		}
		op := schema.OpListTemplates
		want := []string{"wait " + op, "answered " + op + " OK", "wait " + op, "answered " + op + " OK"}
		if diff := cmp.Diff(want, g.calls); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if got := g.header.Get("X-Ratelimit-Remaining"); got != "7" {
			t.Errorf("header handed on: remaining %q, want 7", got)
		}
	})
	t.Run("refused", func(t *testing.T) {
		a := serve(t, answer(204, ""))
		g, tokens := &gate{wait: func(context.Context, apiclient.Request) error { return noPermit{} }}, &lastingSource{}
		c := a.client(t, func(cfg *apiclient.Config) { cfg.Gate, cfg.Tokens = g, tokens })
		err := c.RemoveOrganizationClients(t.Context(), orgID, []string{"a"})
		if _, ok := errors.AsType[noPermit](err); !ok {
			t.Errorf("the gate's error is not reached: %v", err)
		}
		want := "remove_organization_clients: DELETE /organizations/" + orgID +
			"/clients: no permit to send: no permit within 20s"
		if err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
		if n := len(a.asked()); n != 0 {
			t.Errorf("%d requests sent without a permit", n)
		}
		if tokens.fetched != 0 {
			t.Errorf("%d tokens fetched for an operation that may be blocked", tokens.fetched)
		}
		if diff := cmp.Diff([]string{"wait remove_organization_clients"}, g.calls); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
	t.Run("no answer", func(t *testing.T) {
		g := &gate{}
		c := newClient(t, closedPort, func(cfg *apiclient.Config) { cfg.Gate = g })
		if err := c.RemoveOrganizationClients(t.Context(), orgID, []string{"a"}); err == nil {
			t.Fatal("a closed port answered")
		}
		want := []string{"wait remove_organization_clients", "answered remove_organization_clients "}
		if diff := cmp.Diff(want, g.calls); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
	for name, token := range map[string]string{"no token": "", "a token that no header can carry": "a\nb"} {
		t.Run(name, func(t *testing.T) {
			a := serve(t, answer(204, ""))
			g := &gate{}
			c := a.client(t, func(cfg *apiclient.Config) {
				cfg.Gate = g
				cfg.Tokens = apiclient.StaticToken(apiclient.NewSecret(token))
			})
			err := c.RemoveOrganizationClients(t.Context(), orgID, []string{"a"})
			if _, ok := errors.AsType[*apiclient.TokenError](err); !ok {
				t.Errorf("want a TokenError, got %v", err)
			}
			want := []string{"wait remove_organization_clients", "answered remove_organization_clients "}
			if diff := cmp.Diff(want, g.calls); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if n := len(a.asked()); n != 0 {
				t.Errorf("%d requests sent without a token", n)
			}
		})
	}
	t.Run("the caller has gone", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		a := serve(t, func(_ http.ResponseWriter, r *http.Request) {
			cancel()
			<-r.Context().Done()
		})
		g := &gate{}
		c := a.client(t, func(cfg *apiclient.Config) { cfg.Gate = g })
		err := c.RemoveOrganizationClients(ctx, orgID, []string{"a"})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("want context.Canceled in it, got %v", err)
		}
		if len(g.calls) != 2 || g.ended {
			t.Errorf("calls %v, context ended: %v; want two and false", g.calls, g.ended)
		}
	})
}

var errUnwanted = errors.New("the run was cancelled")

// TestBoundClient checks that the function of a binding is called with the permit granted, before
// each request is sent, and that a request for which it returns an error is not sent. Another
// client of the tenant does not call it.
func TestBoundClient(t *testing.T) {
	const op = "list_templates"
	waited, sent := "wait "+op, "answered "+op+" OK"
	for _, tt := range []struct {
		name   string
		unwant int // the call that returns an error, from 1; 0: none
		asks   bool
		want   []string
		sent   int
	}{
		{"wanted", 0, true, []string{waited, "asked", sent, waited, "asked", sent}, 2},
		{"unwanted", 1, true, []string{waited, "asked", "answered " + op + " "}, 0},
		{"unwanted at the second page", 2, true, []string{waited, "asked", sent, waited, "asked", "answered " + op + " "}, 1},
		{"nobody asks", 1, false, []string{waited, sent, waited, sent}, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := serve(t, func(w http.ResponseWriter, r *http.Request) {
				body := `{"templates":[{"id":"a"}],"next":"n1"}`
				if r.URL.Query().Get("from") == "n1" {
					body = `{"templates":[{"id":"b"}]}`
				}
				_, _ = io.WriteString(w, body)
			})
			g := &gate{}
			c := a.client(t, func(cfg *apiclient.Config) { cfg.Gate = g })
			asked := 0
			bound := c.For(apiclient.Binding{Before: func(context.Context) error {
				g.mu.Lock()
				defer g.mu.Unlock()
				g.calls = append(g.calls, "asked")
				if asked++; asked == tt.unwant {
					return errUnwanted
				}
				return nil
			}})
			if !tt.asks {
				bound = bound.For(apiclient.Binding{})
			}
			err := drain(bound.Templates(t.Context()))
			if refused := errors.Is(err, errUnwanted); refused != (tt.asks && tt.unwant > 0) {
				t.Errorf("got %v", err)
			}
			if diff := cmp.Diff(tt.want, g.calls); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if n := len(a.asked()); n != tt.sent {
				t.Errorf("%d requests sent, want %d", n, tt.sent)
			}
		})
	}
}

// TestChanges checks that Changed is called for each change that the API has made, with the API's
// id of the request, and neither for reads nor for refused requests.
func TestChanges(t *testing.T) {
	status := http.StatusNoContent
	a := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			_, _ = io.WriteString(w, `{"templates":[]}`)
			return
		}
		w.Header().Set("X-Request-Id", "request-1")
		w.WriteHeader(status)
	})
	var got []apiclient.Change
	c := a.client(t).For(apiclient.Binding{Changed: func(_ context.Context, change apiclient.Change) {
		got = append(got, change)
	}})
	if err := drain(c.Templates(t.Context())); err != nil {
		t.Fatal(err)
	}
	ctx := apiclient.WithCorrelationID(t.Context(), "run:1")
	if err := c.RemoveOrganizationClients(ctx, "org_1", []string{"client"}); err != nil {
		t.Fatal(err)
	}
	status = http.StatusForbidden
	if err := c.RemoveOrganizationClients(t.Context(), "org_1", []string{"client"}); err == nil {
		t.Fatal("a refused request is no error")
	}
	want := []apiclient.Change{{Operation: schema.OpRemoveOrganizationClients, Method: http.MethodDelete,
		Path: "/organizations/org_1/clients", Status: http.StatusNoContent, RequestID: "request-1",
		CorrelationID: "run:1"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
}

// renewedSource has another token when one was refused.
type renewedSource int

func (s *renewedSource) Token(context.Context) (apiclient.Secret, error) {
	return apiclient.NewSecret(fmt.Sprintf("token-%d", *s)), nil
}

func (s *renewedSource) Expire(apiclient.Secret) { *s++ }

// TestIntent checks that the intent of a change is stored with the permit granted, before each time
// that the request is sent, and that a request whose intent is not stored is not sent.
func TestIntent(t *testing.T) {
	const op = "update_discovery_domain"
	waited, sent, unsent := "wait "+op, "answered "+op+" OK", "answered "+op+" "
	for _, tt := range []struct {
		name  string
		fails bool
		first http.HandlerFunc // nil: the request is accepted at once
		want  []string
		sent  int
	}{
		{"stored", false, nil, []string{waited, "intent", sent}, 1},
		{"not stored", true, nil, []string{waited, "intent", unsent}, 0},
		{"a token is refused", false, answer(401, `{"statusCode":401,"error":"Unauthorized","message":"Expired token"}`),
			[]string{waited, "intent", "answered " + op + " Unauthorized", waited, "intent", sent}, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			first := tt.first
			a := serve(t, func(w http.ResponseWriter, r *http.Request) {
				respond := first
				first = nil
				if respond == nil {
					respond = answer(200, domainRecord)
				}
				respond(w, r)
			})
			g := &gate{}
			c := a.client(t, func(cfg *apiclient.Config) { cfg.Gate, cfg.Tokens = g, new(renewedSource) })
			u := schema.DiscoveryDomainUpdate{Status: new(schema.StatusVerified)}
			_, err := c.UpdateDiscoveryDomain(t.Context(), orgID, domainID, u, func(context.Context) error {
				g.mu.Lock()
				defer g.mu.Unlock()
				g.calls = append(g.calls, "intent")
				if tt.fails {
					return errUnwanted
				}
				return nil
			})
			if errors.Is(err, errUnwanted) != tt.fails || (err != nil) != tt.fails {
				t.Errorf("got %v", err)
			}
			if diff := cmp.Diff(tt.want, g.calls); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if n := len(a.asked()); n != tt.sent {
				t.Errorf("%d requests sent, want %d", n, tt.sent)
			}
		})
	}
}

// TestClassOfABoundClient checks that the gate gets the class with each request, also with one that
// is repeated, and that a client without a class has the first one.
func TestClassOfABoundClient(t *testing.T) {
	a := serve(t, answer(401, `{"statusCode":401,"error":"Unauthorized","message":"Expired token"}`))
	var got []apiclient.Request
	g := &gate{wait: func(_ context.Context, r apiclient.Request) error {
		got = append(got, r)
		return nil
	}}
	c := a.client(t, func(cfg *apiclient.Config) { cfg.Gate, cfg.Tokens = g, new(renewedSource) })
	for _, one := range []*apiclient.Client{c.For(apiclient.Binding{Class: 2}), c} {
		_ = one.RemoveOrganizationClients(t.Context(), orgID, []string{"a"})
	}
	const op = schema.OpRemoveOrganizationClients
	want := []apiclient.Request{{Operation: op, Class: 2}, {Operation: op, Class: 2, Again: true},
		{Operation: op}, {Operation: op, Again: true}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestObserveAndLog(t *testing.T) {
	a := serve(t,
		answer(404, `{"statusCode":404,"error":"Not Found","message":"No organization found by that id or name"}`))
	var observed []string
	var logged bytes.Buffer
	c := a.client(t, func(cfg *apiclient.Config) {
		cfg.Observe = func(operation string, status int, took time.Duration) {
			observed = append(observed, operation+" "+http.StatusText(status))
			if took <= 0 {
				t.Errorf("took %v", took)
			}
		}
		cfg.Logger = slog.New(slog.NewJSONHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	if err := c.RemoveOrganizationClients(t.Context(), orgID, []string{"a"}); err == nil {
		t.Fatal("no error for a 404")
	}
	if diff := cmp.Diff([]string{"remove_organization_clients Not Found"}, observed); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	var line map[string]any
	if err := json.Unmarshal(logged.Bytes(), &line); err != nil {
		t.Fatalf("want one line of JSON, got %s", logged.String())
	}
	if line["operation"] != "remove_organization_clients" || line["status"] != 404.0 {
		t.Errorf("logged %v", line)
	}
	if strings.Contains(logged.String(), testToken) {
		t.Errorf("the token is in the log: %s", logged.String())
	}
}

// TestTraceSurroundsEachRequest checks that a trace starts with the caller's context and ends
// with the status.
func TestTraceSurroundsEachRequest(t *testing.T) {
	type key struct{}
	a := serve(t, answer(404, `{}`))
	var traced []string
	c := a.client(t, func(cfg *apiclient.Config) {
		cfg.Trace = func(ctx context.Context, operation, method string) (context.Context, func(int)) {
			begun := fmt.Sprintf("%v %s %s", ctx.Value(key{}), method, operation)
			return ctx, func(status int) { traced = append(traced, fmt.Sprintf("%s %d", begun, status)) }
		}
	})
	ctx := context.WithValue(t.Context(), key{}, "row 7:")
	for range 2 {
		if err := c.RemoveOrganizationClients(ctx, orgID, []string{"a"}); err == nil {
			t.Fatal("no error")
		}
		a.Close()
	}
	want := []string{"row 7: DELETE remove_organization_clients 404", "row 7: DELETE remove_organization_clients 0"}
	if diff := cmp.Diff(want, traced); diff != "" {
		t.Errorf("traced (-want +got):\n%s", diff)
	}
}

// slowSource is a token source each of whose answers takes a while.
type slowSource struct{ apiclient.TokenSource }

func (s slowSource) Token(ctx context.Context) (apiclient.Secret, error) {
	time.Sleep(time.Second)
	return s.TokenSource.Token(ctx)
}

// lastingSource fetches a token in a second, which lasts for an hour.
type lastingSource struct {
	fetched int
	ends    time.Time
}

func (s *lastingSource) Token(context.Context) (apiclient.Secret, error) {
	if !time.Now().Before(s.ends) {
		time.Sleep(time.Second)
		s.fetched, s.ends = s.fetched+1, time.Now().Add(time.Hour)
	}
	return apiclient.NewSecret(fmt.Sprintf("token-%d", s.fetched)), nil
}

func (s *lastingSource) Expire(apiclient.Secret) { s.ends = time.Time{} }

// TestTokenThatEndsDuringTheWait has a token end while the permit is awaited: the permit is given
// up once, and the request has the new token.
func TestTokenThatEndsDuringTheWait(t *testing.T) {
	a := serve(t, answer(204, ""))
	synctest.Test(t, func(t *testing.T) {
		tokens := &lastingSource{}
		_, _ = tokens.Token(t.Context())
		g := &gate{wait: func(_ context.Context, r apiclient.Request) error {
			if !r.Again {
				time.Sleep(2 * time.Hour)
			}
			return nil
		}}
		c := a.client(t, func(cfg *apiclient.Config) { cfg.Gate, cfg.Tokens = g, tokens })
		if err := c.RemoveOrganizationClients(t.Context(), orgID, []string{"a"}); err != nil {
			t.Fatal(err)
		}
		const op = "remove_organization_clients"
		want := []string{"wait " + op, "answered " + op + " ", "wait " + op, "answered " + op + " No Content"}
		if diff := cmp.Diff(want, g.calls); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if got := a.headers[0].Get("Authorization"); got != "Bearer token-2" || tokens.fetched != 2 {
			t.Errorf("sent with %q after %d fetches", got, tokens.fetched)
		}
	})
}

// TestSlowTokenSource checks that a request gives up at most one permit for its token, so
// that a source that is slow each time delays requests and does not use up the rate.
func TestSlowTokenSource(t *testing.T) {
	a := serve(t, answer(204, ""))
	synctest.Test(t, func(t *testing.T) {
		errSecond := errors.New("no second permit")
		g := &gate{wait: func(_ context.Context, r apiclient.Request) error {
			if r.Again {
				return errSecond
			}
			return nil
		}}
		c := a.client(t, func(cfg *apiclient.Config) { cfg.Gate, cfg.Tokens = g, slowSource{cfg.Tokens} })
		remove := func() error { return c.RemoveOrganizationClients(t.Context(), orgID, []string{"a"}) }
		if err := remove(); !errors.Is(err, errSecond) || len(a.asked()) != 0 {
			t.Errorf("sent with a permit of a second ago: %v", err)
		}
		before := len(g.calls)
		g.wait = nil
		if err := remove(); err != nil {
			t.Error(err)
		}
		const op = "remove_organization_clients"
		want := []string{"wait " + op, "answered " + op + " ", "wait " + op, "answered " + op + " No Content"}
		if diff := cmp.Diff(want, g.calls[before:]); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}
