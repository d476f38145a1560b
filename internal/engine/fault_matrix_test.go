package engine_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"orgops/apiclient"
	"orgops/apiclient/schema"
	"orgops/internal/engine"
	"orgops/internal/enginetest"
	"orgops/internal/ledger"
	"orgops/internal/redistest"
	"orgops/internal/sandbox"
)

// status returns a fault that answers with the status and header fields.
func status(code int, header ...string) sandbox.Fault {
	f := sandbox.Fault{Status: code, Header: http.Header{}}
	for i := 0; i < len(header); i += 2 {
		f.Header.Set(header[i], header[i+1])
	}
	return f
}

// operation is one call of the API, by the client that the handlers use.
type operation struct {
	name   string // the sandbox's
	do     func(context.Context, *apiclient.Client) error
	landed func(*sandbox.Sandbox) bool // nil: the operation changes nothing
}

var templateRequest = schema.TemplateRequest{
	Name: "n", Type: "t", Dialect: "simplified/1.0", WellKnownTrustedIssuers: "aamva",
}

func operations() []operation {
	verified := func(s *sandbox.Sandbox) bool {
		d, _ := s.Domain(org, dom)
		return d.Status == "verified"
	}
	return []operation{
		{sandbox.OpGetDiscoveryDomain, func(ctx context.Context, c *apiclient.Client) error {
			_, err := c.DiscoveryDomain(ctx, org, dom)
			return err
		}, nil},
		{sandbox.OpListDiscoveryDomains, func(ctx context.Context, c *apiclient.Client) error {
			page, _, err := c.DiscoveryDomainsPage(ctx, org, "")
			return firstOf(page, err)
		}, nil},
		{sandbox.OpListOrganizations, func(ctx context.Context, c *apiclient.Client) error {
			page, _, err := c.OrganizationsPage(ctx, "")
			return firstOf(page, err)
		}, nil},
		{sandbox.OpListTemplates, func(ctx context.Context, c *apiclient.Client) error {
			return first(c.Templates(ctx))
		}, nil},
		{sandbox.OpUpdateDiscoveryDomain, func(ctx context.Context, c *apiclient.Client) error {
			_, err := c.UpdateDiscoveryDomain(ctx, org, dom,
				schema.DiscoveryDomainUpdate{Status: new(schema.StatusVerified)}, nil)
			return err
		}, verified},
		{sandbox.OpRemoveOrganizationClients, func(ctx context.Context, c *apiclient.Client) error {
			return c.RemoveOrganizationClients(ctx, org, []string{"client_0"})
		}, func(s *sandbox.Sandbox) bool { return len(s.Clients(org)) == 0 }},
		{sandbox.OpCreateTemplate, func(ctx context.Context, c *apiclient.Client) error {
			_, err := c.CreateTemplate(ctx, templateRequest, nil)
			return err
		}, func(s *sandbox.Sandbox) bool { return len(s.Templates()) == 1 }},
	}
}

// firstOf returns the error of a page, or of its first record.
func firstOf[T any](page []apiclient.Listed[T], err error) error {
	if err != nil || len(page) == 0 {
		return err
	}
	return page[0].Err
}

// first reads a list up to its first record.
func first[T any](list func(func(T, error) bool)) (err error) {
	list(func(_ T, e error) bool { err = e; return false })
	return err
}

// effect is the effect of a write under a fault.
type effect int

const (
	none    effect = iota // the client may report so
	unknown               // no effect, which the client cannot know
	landed
)

// matrixFault is a fault with its consequence, for every operation.
type matrixFault struct {
	name    string
	fault   sandbox.Fault
	outcome ledger.Outcome
	after   time.Duration // the minimum time until the next attempt
	// tokenAfter is the same for a token; 0: it is no other.
	tokenAfter time.Duration
	effect     effect
	requests   int  // to the operation; 0: 1
	patient    bool // the client's time must not run out
	// ofOperation says that the operation alone is blocked, and not the tenant.
	ofOperation bool
	// bodiless is the outcome of a removal, for which the body does not matter; empty: the
	// same.
	bodiless ledger.Outcome
	// token is the outcome if the token endpoint has the fault; empty: the same if it is done or
	// paced, otherwise blocked.
	token ledger.Outcome
}

// matrixTimeout is the timeout of a request whose answer is late, in real time: enough to send it.
const matrixTimeout = time.Second

// noJWT is the live service's answer to a bearer token that is no JWT.
const noJWT = `{"statusCode":400,"error":"Bad Request","message":"Bad HTTP authentication header format","errorCode":"Bearer"}`

func matrixFaults(elsewhere string) []matrixFault {
	scope := `{"statusCode":403,"error":"Forbidden","message":"Insufficient scope, expected any of: x","errorCode":"insufficient_scope"}`
	feature := func(status int) sandbox.Fault {
		return sandbox.Fault{Status: status, Body: fmt.Sprintf(`{"statusCode":%d,"error":"E","errorCode":"feature_not_enabled",`+
			`"message":"This feature is not enabled for this tenant."}`, status)}
	}
	once := func(f sandbox.Fault) sandbox.Fault { f.Count = 1; return f }
	return []matrixFault{
		{name: "none", outcome: ledger.Done, effect: landed},
		{name: "400", fault: status(400), outcome: ledger.Refused},
		{name: "401 once", fault: once(status(401)), outcome: ledger.Done, effect: landed,
			requests: 2, token: ledger.Blocked},
		{name: "401 always", fault: status(401), outcome: ledger.Blocked, requests: 2},
		{name: "403", fault: status(403), outcome: ledger.Refused},
		{name: "403 insufficient_scope", fault: sandbox.Fault{Status: 403, Body: scope}, outcome: ledger.Blocked,
			ofOperation: true},
		{name: "402", fault: status(402), outcome: ledger.Blocked, ofOperation: true},
		{name: "403 of a feature", fault: feature(403), outcome: ledger.Blocked, ofOperation: true},
		{name: "404", fault: status(404), outcome: ledger.Refused},
		{name: "404 of a feature", fault: feature(404), outcome: ledger.Blocked, ofOperation: true},
		{name: "423", fault: status(423), outcome: ledger.Blocked, ofOperation: true},
		{name: "451", fault: status(451), outcome: ledger.Blocked, ofOperation: true},
		{name: "503, a page", fault: sandbox.Fault{HTML: true, Status: 503}, outcome: ledger.Blocked, effect: unknown},
		{name: "408", fault: status(408), outcome: ledger.Transient, effect: unknown},
		{name: "409", fault: status(409), outcome: ledger.Refused},
		{name: "413", fault: status(413), outcome: ledger.Refused},
		{name: "422", fault: status(422), outcome: ledger.Refused},
		{name: "429", fault: status(429), outcome: ledger.Paced, after: time.Second},
		{name: "429, Retry-After", fault: status(429, "Retry-After", "7"), outcome: ledger.Paced, after: 7 * time.Second},
		{name: "429, Retry-After of a week", fault: status(429, "Retry-After", "604800"),
			outcome: ledger.Paced, after: 30 * time.Second, tokenAfter: time.Hour},
		{name: "500", fault: status(500), outcome: ledger.Transient, effect: unknown},
		{name: "500, after the work", fault: sandbox.Fault{Status: 500, Handled: true},
			outcome: ledger.Transient, effect: landed},
		{name: "502", fault: status(502), outcome: ledger.Transient, effect: unknown},
		{name: "502, a page", fault: sandbox.Fault{HTML: true, Body: "bad gateway"},
			outcome: ledger.Transient, effect: unknown},
		{name: "503, Retry-After", fault: status(503, "Retry-After", "7"), outcome: ledger.Transient,
			after: 7 * time.Second, effect: unknown},
		{name: "504, after the work", fault: sandbox.Fault{Status: 504, Handled: true},
			outcome: ledger.Transient, effect: landed},
		{name: "reset before", fault: sandbox.Fault{DropBefore: true}, outcome: ledger.Transient, effect: unknown},
		{name: "reset after", fault: sandbox.Fault{DropAfter: true}, outcome: ledger.Transient, effect: landed},
		{name: "body cut short", fault: sandbox.Fault{Truncate: true}, outcome: ledger.Transient,
			effect: landed, bodiless: ledger.Done},
		{name: "400, a page", fault: sandbox.Fault{HTML: true, Status: 400}, outcome: ledger.Transient,
			effect: unknown},
		{name: "400, no JWT", fault: sandbox.Fault{Status: 400, Body: noJWT}, outcome: ledger.Blocked, requests: 2},
		{name: "401, a page", fault: sandbox.Fault{HTML: true, Status: 401}, outcome: ledger.Blocked,
			effect: unknown},
		{name: "403, a page", fault: sandbox.Fault{HTML: true, Status: 403}, outcome: ledger.Transient,
			effect: unknown},
		{name: "404, a page", fault: sandbox.Fault{HTML: true, Status: 404}, outcome: ledger.Blocked,
			effect: unknown},
		{name: "409, a page", fault: sandbox.Fault{HTML: true, Status: 409}, outcome: ledger.Transient,
			effect: unknown},
		{name: "404, JSON of a gateway", fault: sandbox.Fault{Status: 404, Body: `{"message":"no Route matched"}`},
			outcome: ledger.Blocked, effect: unknown},
		{name: "200, a page", fault: sandbox.Fault{HTML: true, Status: 200, Body: "log in"}, outcome: ledger.Blocked,
			effect: unknown},
		{name: "200, not JSON", fault: sandbox.Fault{Body: "<html>", Handled: true}, outcome: ledger.Transient,
			effect: landed, bodiless: ledger.Done},
		{
			name: "200, another record", fault: sandbox.Fault{
				Body: `{"id":"another","name":"another","domains":[{"id":"x"}],"organizations":[{}],"clients":[{}],"templates":[{}]}`, Handled: true,
			}, outcome: ledger.Transient, effect: landed, bodiless: ledger.Done,
		},
		{name: "200, an empty body", fault: sandbox.Fault{Status: 200, Body: " ", Handled: true}, outcome: ledger.Transient,
			effect: landed, bodiless: ledger.Done},
		{name: "200, without end", fault: sandbox.Fault{Status: 200, Body: " ", Handled: true, Endless: true},
			outcome: ledger.Transient, effect: landed, bodiless: ledger.Done, patient: true},
		{name: "too late, handled", fault: sandbox.Fault{AnswerLatency: time.Minute},
			outcome: ledger.Transient, effect: landed},
		{name: "too late", fault: sandbox.Fault{Latency: time.Minute}, outcome: ledger.Transient, effect: unknown},
		{name: "dripping", fault: sandbox.Fault{Drip: time.Minute}, outcome: ledger.Transient,
			effect: landed, bodiless: ledger.Done},
		{name: "redirect elsewhere", fault: sandbox.Fault{Redirect: elsewhere}, outcome: ledger.Blocked,
			effect: unknown},
		{name: "redirect elsewhere that keeps the method", fault: sandbox.Fault{Redirect: elsewhere, Status: 308},
			outcome: ledger.Blocked, effect: unknown},
		{name: "not HTTP", fault: sandbox.Fault{NotHTTP: true}, outcome: ledger.Transient, effect: unknown},
	}
}

// matrixTenant returns a tenant for one cell of the matrix, and its client.
func matrixTenant(t *testing.T, base, token string, timeout time.Duration) (*sandbox.Sandbox, *apiclient.Client) {
	t.Helper()
	s, err := sandbox.Start(sandbox.Options{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	s.AddDomain(org, sandbox.Domain{ID: dom})
	s.AddClients(org, "client_0")
	if base == "" {
		base = s.BaseURL()
	}
	if token == "" {
		token = s.AuthURL() + "/oauth/token/"
	}
	c, err := apiclient.New(apiclient.Config{BaseURL: base, Timeout: timeout,
		Tokens: apiclient.ClientCredentials(apiclient.ClientCredentialsConfig{
			TokenURL: token, Audience: s.BaseURL() + "/", ClientID: s.ClientID(),
			ClientSecret: apiclient.NewSecret(s.ClientSecret()),
			Timeout:      timeout,
		})})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.CloseIdle)
	return s, c
}

// TestFaultMatrix combines every operation with every fault of its server and the network. It
// checks the outcome, whether the tenant was changed, whether the client can know that, and
// the number of requests. By default each fault is combined with each third operation, and the
// next one with others.
func TestFaultMatrix(t *testing.T) {
	t.Parallel()
	strange := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("%s %s was sent to the target of a redirect", r.Method, r.URL)
	}))
	defer strange.Close()
	for i, f := range matrixFaults(strange.URL) {
		t.Run(f.name, func(t *testing.T) {
			for k, op := range operations() {
				if (i+k)%redistest.Stride(3) != 0 {
					continue
				}
				t.Run(op.name, func(t *testing.T) {
					t.Parallel()
					f.at(t, op)
				})
			}
			t.Run(sandbox.OpToken, func(t *testing.T) {
				t.Parallel()
				f.atTokenEndpoint(t)
			})
		})
	}
}

func (f matrixFault) timeout() time.Duration {
	if f.effect == landed && f.outcome == ledger.Done || f.patient {
		return 0
	}
	if f.fault.Latency+f.fault.AnswerLatency+f.fault.Drip > 0 {
		return matrixTimeout
	}
	return 0
}

func (f matrixFault) at(t *testing.T, op operation) {
	s, c := matrixTenant(t, "", "", f.timeout())
	// The token is there, and the connection: the time is the operation's own.
	if err := c.RemoveOrganizationClients(t.Context(), "org_2", []string{"x"}); err == nil {
		t.Fatal("an organization that does not exist lost a client")
	}
	before := len(s.Requests())
	fault := f.fault
	fault.Operation = op.name
	s.AddFault(fault)
	err := op.do(t.Context(), c)
	want := f.outcome
	if op.name == sandbox.OpRemoveOrganizationClients && f.bodiless != "" {
		want = f.bodiless
	}
	j := f.consequence(t, err, want)
	if want == ledger.Blocked {
		blocked := op.name
		if !f.ofOperation {
			blocked = "*"
		}
		if j.Operation != blocked {
			t.Errorf("blocks %q, want %q", j.Operation, blocked)
		}
	}
	arrived := func() (n int) {
		for _, r := range s.Requests()[before:] {
			if r.Operation == op.name {
				n++
			}
		}
		return n
	}
	late := func() bool { // the client's time ran out before the server had the request
		return f.timeout() > 0 && (arrived() == 0 || f.effect == landed && op.landed != nil && !op.landed(s))
	}
	for end := time.Now().Add(enginetest.Patience); late() && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	sent := arrived()
	// net/http repeats a read on a new connection
	again := op.landed == nil && (f.fault.DropBefore || f.fault.DropAfter) && sent == 2
	if sent != max(f.requests, 1) && !again {
		t.Errorf("%d requests, want %d", sent, max(f.requests, 1))
	}
	if op.landed == nil {
		return
	}
	if got := op.landed(s); got != (f.effect == landed) {
		t.Errorf("the tenant was changed: %t", got)
	}
	if err != nil && engine.NoEffect(err) != (f.effect == none) {
		t.Errorf("that it had no effect is said to be sure: %t", engine.NoEffect(err))
	}
}

func (f matrixFault) atTokenEndpoint(t *testing.T) {
	s, c := matrixTenant(t, "", "", f.timeout())
	fault := f.fault
	fault.Operation = sandbox.OpToken
	if f.name == "200, another record" {
		fault.Body = `{"access_token":5,"token_type":"mac"}`
	}
	s.AddFault(fault)
	_, err := c.CreateTemplate(t.Context(), templateRequest, nil)
	want := f.outcome
	switch {
	case f.token != "":
		want = f.token
	case want != ledger.Done && want != ledger.Paced:
		want = ledger.Blocked
	}
	expected := f
	if f.tokenAfter > 0 {
		expected.after = f.tokenAfter
	}
	expected.consequence(t, err, want)
	if made := len(s.Templates()); err != nil && (made > 0 || !engine.NoEffect(err)) {
		t.Errorf("%d templates without a token; surely none: %t", made, engine.NoEffect(err))
	}
	if err != nil && strings.Contains(err.Error(), s.ClientSecret()) {
		t.Error("the error has the client's secret in it")
	}
}

// consequence checks the consequence of an error.
func (f matrixFault) consequence(t *testing.T, err error, want ledger.Outcome) engine.Consequence {
	t.Helper()
	j := engine.Decide(err)
	if j.Outcome != want {
		t.Fatalf("%s (%v), want %s", j.Outcome, err, want)
	}
	if want != ledger.Blocked && (j.After < f.after || f.after > 0 && j.After > f.after) {
		t.Errorf("again in %v, want %v", j.After, f.after)
	}
	if j.Counts != (want == ledger.Transient) {
		t.Errorf("an attempt is counted: %t", j.Counts)
	}
	return j
}

// TestFaultsOnTheWay has no server, or a server without a valid certificate.
func TestFaultsOnTheWay(t *testing.T) {
	impostor := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("%s %s was sent to a server without a good certificate", r.Method, r.URL)
	}))
	defer impostor.Close()
	impostor.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo) // it logs the refused handshakes
	impostor.StartTLS()
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	for name, origin := range map[string]string{
		"the certificate is not trusted":  impostor.URL,
		"no TLS where there should be":    strings.Replace(plain.URL, "http:", "https:", 1),
		"no server listens":               "http://127.0.0.1:1", // no test is ever given that port
		"the name does not exist":         "https://api.orgops.invalid",
		"the name is not one that can be": "https://" + strings.Repeat("a", 64) + ".invalid",
	} {
		t.Run(name, func(t *testing.T) {
			for _, op := range operations() {
				t.Run(op.name, func(t *testing.T) {
					s, c := matrixTenant(t, origin+"/api/v2", "", 0)
					err := op.do(t.Context(), c)
					if j := engine.Decide(err); j.Outcome != ledger.Transient || !j.Counts {
						t.Errorf("%s (%v), want transient, an attempt counted", j.Outcome, err)
					}
					var lost *apiclient.TransportError
					if !errors.As(err, &lost) || op.landed != nil && op.landed(s) {
						t.Errorf("got %v", err)
					}
					// TLS has sent its hello, which counts out of caution.
					if sure := !strings.Contains(name, "TLS") && !strings.Contains(name, "certificate"); sure &&
						!engine.NoEffect(err) {
						t.Errorf("not sure that nothing was sent: %v", err)
					}
				})
			}
			t.Run(sandbox.OpToken, func(t *testing.T) {
				_, c := matrixTenant(t, "", origin+"/oauth/token/", 0)
				_, err := c.DiscoveryDomain(t.Context(), org, dom)
				if j := engine.Decide(err); j.Outcome != ledger.Blocked || j.Operation != "*" || j.Counts || !engine.NoEffect(err) {
					t.Errorf("%+v, want all operations blocked, no attempt counted, nothing done", j)
				}
			})
		})
	}
}
