package surface

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"testing"
	"time"

	"orgops/apiclient"
	"orgops/apiclient/schema"
	"orgops/dnscheck"
	"orgops/dnscheck/dnschecktest"
	"orgops/dnscheck/report"
)

// platform is the API of a tenant, and the DNS of its domains.
//
// A request is carried out by a real client as far as it goes without a network: what handlers
// have done before a request, such as storing its intent, is done.
type platform struct {
	client        *apiclient.Client
	organizations []string
	domains       []*domain
	clients       map[string]string // organization by client
	templates     []schema.Template
	// fails is the answer to every request instead; nil: there is none.
	fails error
}

func newPlatform(t *testing.T) *platform {
	t.Helper()
	client, err := apiclient.New(apiclient.Config{
		BaseURL: "https://tenant.example/api/v2", Tokens: apiclient.StaticToken(apiclient.NewSecret("token")),
		Network: apiclient.Network{Proxy: func(*url.URL) (*url.URL, error) { return nil, errNoNetwork }},
		Trace: func(ctx context.Context, _, _ string) (context.Context, func(int)) {
			if sent, ok := ctx.Value(sentKey{}).(*bool); ok {
				*sent = true
			}
			return ctx, func(int) {}
		},
	})
	must(t, err)
	return &platform{client: client, clients: map[string]string{}}
}

var errNoNetwork = errors.New("the world has no network")

type sentKey struct{}

// bound is a platform as the client of an execution reaches it.
type bound struct {
	*platform

	client *apiclient.Client
}

func (p *platform) bound(b apiclient.Binding) bound { return bound{p, p.client.For(b)} }

// send carries out a request of the client up to its sending, and returns why it is not sent, or
// the answer to all requests.
func (p bound) send(ctx context.Context, request func(context.Context) error) error {
	sent := false
	if err := request(context.WithValue(ctx, sentKey{}, &sent)); !sent {
		return err
	}
	return p.fails
}

// domain is a discovery domain with its DNS.
type domain struct {
	schema.DiscoveryDomain

	organization string
	fails        error // the answer to requests of this domain
	dns          []phase
}

// phase is the answer of DNS from some time on.
type phase struct {
	from   time.Time
	answer answer
}

// answer is an answer of DNS: of checks, and of proofs and disproofs unless they have their own.
type answer struct {
	state  dnscheck.State
	reason dnscheck.Reason
	values []string
	// servers are the answers of each of the zone's name servers, if they differ.
	servers []dnscheck.Observation
	finding *report.Finding
	proof   *answer
}

// token returns the token of a domain.
func token(name string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(name)))[:32] }

// add adds a domain to an organization.
func (p *platform) add(organization, name string, status schema.DomainStatus, answers ...phase) *domain {
	if !slices.Contains(p.organizations, organization) {
		p.organizations = append(p.organizations, organization)
	}
	d := &domain{
		organization: organization, dns: answers,
		DiscoveryDomain: schema.DiscoveryDomain{
			ID: fmt.Sprintf("ord_%02d", len(p.domains)+1), Domain: name, Status: status, VerificationTXT: token(name),
			UseForOrganizationDiscovery: new(true),
			VerificationHost:            "_ss-verification." + organization + "." + name,
		},
	}
	p.domains = append(p.domains, d)
	return d
}

// always is the same answer at all times.
func always(a answer) phase { return phase{answer: a} }

// find returns a domain of an organization.
func (p *platform) find(organization, id, operation, method string) (*domain, error) {
	for _, d := range p.domains {
		if d.organization == organization && d.ID == id {
			return d, d.fails
		}
	}
	return nil, &apiclient.Error{
		Operation: operation, Method: method, Path: "/organizations/" + organization + "/discovery-domains/" + id,
		Status: http.StatusNotFound, Title: "Not Found", Message: "No organization domain found by that id",
	}
}

// DiscoveryDomain returns a domain's record.
func (p bound) DiscoveryDomain(ctx context.Context, organization, id string) (schema.DiscoveryDomain, error) {
	if err := p.send(ctx, func(ctx context.Context) error {
		_, err := p.client.DiscoveryDomain(ctx, organization, id)
		return err
	}); err != nil {
		return schema.DiscoveryDomain{}, err
	}
	d, err := p.find(organization, id, schema.OpGetDiscoveryDomain, http.MethodGet)
	if err != nil {
		return schema.DiscoveryDomain{}, err
	}
	return d.DiscoveryDomain, nil
}

// UpdateDiscoveryDomain changes a domain's record.
func (p bound) UpdateDiscoveryDomain(ctx context.Context, organization, id string,
	u schema.DiscoveryDomainUpdate, intent apiclient.Intent) (schema.DiscoveryDomain, error) {
	if err := p.send(ctx, func(ctx context.Context) error {
		_, err := p.client.UpdateDiscoveryDomain(ctx, organization, id, u, intent)
		return err
	}); err != nil {
		return schema.DiscoveryDomain{}, err
	}
	d, err := p.find(organization, id, schema.OpUpdateDiscoveryDomain, http.MethodPatch)
	if err != nil {
		return schema.DiscoveryDomain{}, err
	}
	if u.Status != nil {
		d.Status = *u.Status
	}
	if u.UseForOrganizationDiscovery != nil {
		d.UseForOrganizationDiscovery = new(*u.UseForOrganizationDiscovery)
	}
	return d.DiscoveryDomain, nil
}

// OrganizationsPage returns all organizations.
func (p bound) OrganizationsPage(context.Context, string) (page []apiclient.Listed[schema.Organization],
	next string, err error) {
	for _, id := range p.organizations {
		page = append(page, apiclient.Listed[schema.Organization]{Record: schema.Organization{ID: id, Name: id}})
	}
	return page, "", p.fails
}

// OrganizationsPageFor returns all organizations, and which of them have a client.
func (p bound) OrganizationsPageFor(_ context.Context, client, _ string) (
	page []apiclient.Listed[schema.OrganizationOf], next string, err error) {
	for _, id := range p.organizations {
		org := schema.OrganizationOf{Organization: schema.Organization{ID: id, Name: id}}
		if p.clients[client] == id {
			org.Client = &schema.ClientAssociation{UseForMemberAccess: new(true)}
		}
		page = append(page, apiclient.Listed[schema.OrganizationOf]{Record: org})
	}
	return page, "", p.fails
}

// DiscoveryDomainsPage returns all domains of an organization.
func (p bound) DiscoveryDomainsPage(_ context.Context, organization, _ string) (
	page []apiclient.Listed[schema.DiscoveryDomain], next string, err error) {
	for _, d := range p.domains {
		if d.organization == organization {
			page = append(page, apiclient.Listed[schema.DiscoveryDomain]{Record: d.DiscoveryDomain})
		}
	}
	return page, "", p.fails
}

// RemoveOrganizationClients removes clients from an organization. Those that it does not have are
// refused.
func (p bound) RemoveOrganizationClients(ctx context.Context, organization string, clients []string) error {
	if err := p.send(ctx, func(ctx context.Context) error {
		return p.client.RemoveOrganizationClients(ctx, organization, clients)
	}); err != nil {
		return err
	}
	for _, client := range clients {
		if p.clients[client] != organization {
			return &apiclient.Error{
				Operation: schema.OpRemoveOrganizationClients, Method: http.MethodDelete,
				Path: "/organizations/" + organization + "/clients", Status: http.StatusBadRequest, Title: "Bad Request",
				Message: "A client is not associated with the organization",
			}
		}
	}
	for _, client := range clients {
		delete(p.clients, client)
	}
	return nil
}

// CreateTemplate creates a template. A name that is taken is refused.
func (p bound) CreateTemplate(ctx context.Context, r schema.TemplateRequest,
	intent apiclient.Intent) (schema.Template, error) {
	if err := p.send(ctx, func(ctx context.Context) error {
		_, err := p.client.CreateTemplate(ctx, r, intent)
		return err
	}); err != nil {
		return schema.Template{}, err
	}
	for _, other := range p.templates {
		if other.Name == r.Name {
			return schema.Template{}, &apiclient.Error{
				Operation: schema.OpCreateTemplate, Method: http.MethodPost,
				Path:   "/verifiable-credentials/verification/templates",
				Status: http.StatusConflict, Title: "Conflict", Message: "A template with this name exists",
			}
		}
	}
	return p.create(r), nil
}

// create stores a template.
func (p *platform) create(r schema.TemplateRequest) schema.Template {
	created := schema.Template{ID: fmt.Sprintf("vct_%02d", len(p.templates)+1), TemplateRequest: r,
		CreatedAt: time.Now()}
	p.templates = append(p.templates, created)
	return created
}

// Templates returns all templates.
func (p bound) Templates(context.Context) iter.Seq2[schema.Template, error] {
	return func(yield func(schema.Template, error) bool) {
		for _, one := range p.templates {
			if !yield(one, nil) {
				return
			}
		}
	}
}

// at returns the domain of a host, and its present answer.
func (p *platform) at(host string) (*domain, answer, error) {
	for _, d := range p.domains {
		if d.VerificationHost != host {
			continue
		}
		var present answer
		for _, one := range d.dns {
			if !time.Now().Before(one.from) {
				present = one.answer
			}
		}
		return d, present, nil
	}
	return nil, answer{}, errors.New("a check of " + host + ", which is no host of the tenant")
}

// Check queries the name servers of a domain.
func (p *platform) Check(_ context.Context, host, _ string) (dnscheck.Verdict, error) {
	d, a, err := p.at(host)
	if err != nil {
		return dnscheck.Verdict{}, err
	}
	return a.verdict(d, dnscheck.ByAuthority), nil
}

// Prove queries the name servers of a domain and the resolvers.
func (p *platform) Prove(_ context.Context, host, token string) (dnscheck.Verdict, error) {
	d, a, err := p.at(host)
	if err != nil {
		return dnscheck.Verdict{}, err
	}
	if a.proof != nil {
		a = *a.proof
	}
	return dnschecktest.Proven(a.verdict(d, dnscheck.ByBoth), token), nil
}

// Disprove queries as Prove does.
func (p *platform) Disprove(ctx context.Context, host, token string) (dnscheck.Verdict, error) {
	return p.Prove(ctx, host, token)
}

// Diagnose returns the finding of a domain.
func (p *platform) Diagnose(_ context.Context, host, _, _ string, _ dnscheck.Verdict) (report.Diagnosis, error) {
	_, a, err := p.at(host)
	if err != nil || a.finding == nil {
		return report.Diagnosis{}, err
	}
	return report.Diagnosis{Findings: []report.Finding{*a.finding}}, nil
}

// Operator returns the operator of the name servers of a domain.
func (p *platform) Operator(context.Context, string) (string, error) { return operator, nil }

const (
	// operator is the one of all domains' name servers.
	operator = "hoster.example"
	// cached is how long an absence may be cached. Rows that wait so long are not spread at random.
	cached = time.Hour
	took   = 12 * time.Millisecond
)

// verdict returns the answer as a verdict on the record of a domain.
func (a answer) verdict(d *domain, basis dnscheck.Basis) dnscheck.Verdict {
	// The verdict of the zone's two name servers. Present has no negative TTL: nothing denies the
	// record.
	host := d.VerificationHost
	names := []string{"ns1." + operator, "ns2." + operator}
	v := dnscheck.Verdict{
		State: a.state, Reason: a.reason, Host: host, Basis: basis, Operator: operator, Zone: d.Domain,
		HostZone: dnscheck.Zone{Name: d.Domain, Servers: names}, Servers: len(names), Answered: len(names),
		NegativeTTL: cached, Observations: a.servers,
	}
	if a.state == dnscheck.Present {
		v.NegativeTTL = 0
	}

	// Servers and resolvers say the same, unless the answer has the servers' own observations.
	one := dnscheck.Observation{
		Transport: "udp", State: a.state, Reason: a.reason, Values: a.values, RCode: rcode(a.reason), Took: took,
		NegativeTTL: v.NegativeTTL,
	}
	if a.state == dnscheck.Present {
		one.Values = []string{d.VerificationTXT}
	}
	if a.servers == nil {
		for i, name := range names {
			o := one
			o.Resolver = name
			o.Authority = true
			o.Address = fmt.Sprintf("192.0.2.%d:53", i+1)
			v.Observations = append(v.Observations, o)
		}
	}

	// The resolvers are those of the settings of acme.
	if basis == dnscheck.ByBoth {
		v.Quorum = 2
		v.Resolvers = 3
		for _, name := range []string{"one", "two", "three"} {
			o := one
			o.Resolver = "https://" + name + ".example/dns-query"
			o.Operator = name
			o.Perspective = "default"
			o.Transport = "https"
			v.Observations = append(v.Observations, o)
		}
	}
	return v
}

// rcode returns the response code of an answer with a reason.
func rcode(r dnscheck.Reason) string {
	switch r {
	case dnscheck.ReasonNoName:
		return "NXDOMAIN"
	case dnscheck.ReasonServFail:
		return "SERVFAIL"
	case dnscheck.ReasonTimeout:
		return ""
	}
	return "NOERROR"
}
