package simulation_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"orgops/apiclient"
	"orgops/apiclient/schema"
	"orgops/dnscheck"
	"orgops/dnscheck/dnschecktest"
	"orgops/dnscheck/report"
	"orgops/internal/ledger"
	"orgops/internal/pace"
)

// fleetTenant is a tenant of the platform with its DNS.
type fleetTenant struct {
	f     *fleet
	name  ledger.Tenant
	limit pace.Limit
	alone spans // no worker serves the tenant
	calm  bool  // no request fails

	mu        sync.Mutex
	orgs      []string
	domains   map[string]*fleetDomain // by id
	ofOrg     map[string][]*fleetDomain
	byHost    map[string]*fleetDomain
	clients   map[string]*fleetClient // by id
	templates []*fleetTemplate        // as they are listed
	byName    map[string][]*fleetTemplate
	log       []sent
	bucket    float64 // of the API, filled until filledAt
	filledAt  time.Time
	refused   int // requests that the API's own bucket did not have
	// troubled is until when many requests fail.
	troubled atomic.Int64
}

// sent is a request that reached the tenant.
type sent struct {
	permit, at time.Time
	operation  string
}

// late reports whether the request was held after it had got its permit, for example in a
// process that was suspended.
func (s sent) late() bool { return s.at.Sub(s.permit) > 2*requestTimeout }

// fleetDomain is a discovery domain. Its token is in DNS from appears on.
type fleetDomain struct {
	org, id, name, token string
	appears              time.Time // zero: always
	verified, flag       bool
	proven               time.Time // the last proof of the token
	looked               time.Time // the last check that did not find it
	changes              []sent    // PATCHes that changed it
}

func (d *fleetDomain) host() string { return "_ss-verification." + d.org + "." + d.name }

func (d *fleetDomain) record() schema.DiscoveryDomain {
	r := schema.DiscoveryDomain{
		ID: d.id, Domain: d.name, Status: schema.StatusPending, VerificationHost: d.host(), VerificationTXT: d.token,
		UseForOrganizationDiscovery: new(d.flag),
	}
	if d.verified {
		r.Status = schema.StatusVerified
	}
	return r
}

// fleetClient is a client's association with an organization.
type fleetClient struct {
	org, id string
	asked   bool // to be removed
	removed []sent
}

// fleetTemplate is a template.
type fleetTemplate struct {
	schema.Template
	created sent
}

func (f *fleet) newTenant(n int) *fleetTenant {
	tn := &fleetTenant{
		f: f, name: ledger.Tenant(fmt.Sprintf("t%03d", n)), domains: map[string]*fleetDomain{},
		ofOrg:  map[string][]*fleetDomain{},
		byHost: map[string]*fleetDomain{}, clients: map[string]*fleetClient{}, byName: map[string][]*fleetTemplate{},
		limit: pace.Limit{Rate: pace.Rate{Count: 16, Per: time.Second}, Burst: 50, Reserve: .2},
	}
	switch n % 10 {
	case 3:
		tn.limit.Rate.Count, tn.limit.Burst = 50, 100
	case 7:
		tn.limit.Rate.Count, tn.limit.Burst = 10, 10
	}
	tn.bucket, tn.filledAt = float64(tn.limit.Burst), now()
	return tn
}

// domain adds a domain.
func (tn *fleetTenant) domain(org string, appears time.Time) *fleetDomain {
	n := len(tn.domains)
	d := &fleetDomain{
		org: org, id: fmt.Sprintf("ord_%s_%d", tn.name, n), name: fmt.Sprintf("d%d.%s.example", n, tn.name),
		token: fmt.Sprintf("token-%s-%d", tn.name, n), appears: appears, flag: true,
	}
	tn.domains[d.id], tn.byHost[d.host()] = d, d
	if tn.ofOrg[org] == nil {
		tn.orgs = append(tn.orgs, org)
	}
	tn.ofOrg[org] = append(tn.ofOrg[org], d)
	return d
}

func (tn *fleetTenant) client(org string, asked bool) *fleetClient {
	c := &fleetClient{org: org, id: fmt.Sprintf("cli_%s_%d", tn.name, len(tn.clients)), asked: asked}
	tn.clients[c.id] = c
	return c
}

// take counts a request, and reports how many the API's bucket had before.
func (tn *fleetTenant) take(s sent) (left float64) {
	tn.log = append(tn.log, s)
	burst := float64(tn.limit.Burst)
	tn.bucket = min(burst, tn.bucket+s.at.Sub(tn.filledAt).Seconds()*tn.limit.Rate.PerSecond())
	tn.filledAt = s.at
	left = tn.bucket
	tn.bucket = max(0, tn.bucket-1)
	return left
}

// fleetAPI is the API of a tenant as a worker reaches it.
type fleetAPI struct {
	*fleetPart
	client *apiclient.Client
}

// fleetGate stores when a request got its permit.
type fleetGate struct{ *pace.Limiter }

type permitKey struct{}

func (g fleetGate) Wait(ctx context.Context, r apiclient.Request) error {
	err := g.Limiter.Wait(ctx, pace.Request{Operation: r.Operation, Class: pace.Class(r.Class), Again: r.Again})
	if at, ok := ctx.Value(permitKey{}).(*time.Time); ok && err == nil {
		*at = now()
	}
	return err
}

// Answered passes on that a request was not sent. The answer of one that was sent follows
// from [call].
func (g fleetGate) Answered(ctx context.Context, operation string, status int, header http.Header,
	after time.Duration) {
	if wasSent, _ := ctx.Value(sentKey{}).(*bool); wasSent == nil || !*wasSent {
		g.Limiter.Answered(ctx, operation, status, header, after)
	}
}

// trouble is a fault that a request meets instead of an answer.
type trouble int

const (
	noTrouble trouble = iota
	unavailable
	tooMany
	lostBefore
	lostAfter
	failedAfter
	landsLate
)

var troubles = map[trouble]string{
	unavailable: "503", tooMany: "429", lostBefore: "request lost", lostAfter: "answer lost",
	failedAfter: "500 after its effect", landsLate: "lands late",
}

func (tn *fleetTenant) trouble() (t trouble) {
	rate := .015
	if tn.calm {
		return noTrouble
	}
	if now().UnixNano() < tn.troubled.Load() {
		rate = .3
	}
	switch x := tn.f.roll() / rate; {
	case x < .3:
		t = unavailable
	case x < .4:
		t = tooMany
	case x < .5:
		t = lostBefore
	case x < .75:
		t = lostAfter
	case x < .9:
		t = failedAfter
	case x < 1:
		t = landsLate
	}
	if t != noTrouble {
		tn.f.count(troubles[t])
	}
	return t
}

// call sends a request to the tenant. It waits for its permit, and then for the answer. The
// request is executed while the tenant is locked.
func call[T any](ctx context.Context, a fleetAPI, operation, method string, request func(context.Context) error,
	effect func(sent) (T, error)) (answer T, err error) {
	var permit time.Time
	if err := a.w.point(); err != nil {
		return answer, err
	}
	if err := sending(context.WithValue(ctx, permitKey{}, &permit), request); err != nil {
		return answer, err
	}
	if err := a.w.point(); err != nil {
		return answer, err
	}
	answered := func(code int) error {
		return &apiclient.Error{Operation: operation, Method: method, Path: "/x", Status: code, Title: http.StatusText(code),
			RetryAfter: 2 * time.Second}
	}
	lost := &apiclient.TransportError{Operation: operation, Method: method, Path: "/x", Sent: true,
		Err: errors.New("connection reset by peer")}
	tn, header := a.tn, http.Header{}
	time.Sleep(tn.f.upTo(80 * time.Millisecond))
	carryOut := func(header http.Header) (none T, err error) {
		tn.mu.Lock()
		defer tn.mu.Unlock()
		s := sent{permit, now(), operation}
		left := tn.take(s)
		header.Set("X-Ratelimit-Limit", strconv.Itoa(tn.limit.Burst))
		header.Set("X-Ratelimit-Remaining", strconv.Itoa(int(tn.bucket)))
		if left < 1 {
			tn.refused++
			return none, answered(http.StatusTooManyRequests)
		}
		return effect(s)
	}
	switch what := tn.trouble(); what {
	case noTrouble:
		answer, err = carryOut(header)
	case unavailable, tooMany:
		tn.mu.Lock()
		tn.take(sent{permit, now(), operation})
		tn.mu.Unlock()
		err = answered(map[trouble]int{unavailable: http.StatusServiceUnavailable, tooMany: http.StatusTooManyRequests}[what])
	case lostBefore:
		err = lost
	case lostAfter:
		_, _ = carryOut(http.Header{})
		err = lost
	case failedAfter:
		_, _ = carryOut(header)
		err = answered(http.StatusInternalServerError)
	case landsLate:
		after := tn.f.upTo(2*requestTimeout - time.Second)
		tn.f.background.Go(func() {
			time.Sleep(after)
			_, _ = carryOut(http.Header{})
		})
		time.Sleep(requestTimeout)
		err = lost
	}
	time.Sleep(tn.f.upTo(80 * time.Millisecond))
	a.limiter.Answered(context.WithoutCancel(ctx), operation, statusOf(err), header, 2*time.Second)
	return answer, err
}

// statusOf returns that of an answer; 0: there was none.
func statusOf(err error) int {
	if answer, ok := errors.AsType[*apiclient.Error](err); ok {
		return answer.Status
	}
	if err != nil {
		return 0
	}
	return http.StatusOK
}

func (a fleetAPI) DiscoveryDomain(ctx context.Context, org, id string) (schema.DiscoveryDomain, error) {
	return call(ctx, a, schema.OpGetDiscoveryDomain, http.MethodGet, func(ctx context.Context) error {
		_, err := a.client.DiscoveryDomain(ctx, org, id)
		return err
	}, func(sent) (d schema.DiscoveryDomain, err error) {
		if have := a.tn.domains[id]; have != nil && have.org == org {
			return have.record(), nil
		}
		return d, notFound(schema.OpGetDiscoveryDomain, http.MethodGet)
	})
}

func (a fleetAPI) UpdateDiscoveryDomain(ctx context.Context, org, id string,
	u schema.DiscoveryDomainUpdate, intent apiclient.Intent) (schema.DiscoveryDomain, error) {
	return call(ctx, a, schema.OpUpdateDiscoveryDomain, http.MethodPatch, func(ctx context.Context) error {
		_, err := a.client.UpdateDiscoveryDomain(ctx, org, id, u, intent)
		return err
	}, func(s sent) (r schema.DiscoveryDomain, err error) {
		d := a.tn.domains[id]
		if d == nil || d.org != org {
			return r, notFound(schema.OpUpdateDiscoveryDomain, http.MethodPatch)
		}
		before := *d
		if u.Status != nil {
			d.verified = *u.Status == schema.StatusVerified
		}
		d.flag = u.UseForOrganizationDiscovery == nil || *u.UseForOrganizationDiscovery
		if d.verified && !before.verified {
			a.tn.f.checkVerified(a.tn, d, s)
		}
		if d.verified != before.verified || d.flag != before.flag {
			d.changes = append(d.changes, s)
		}
		return d.record(), nil
	})
}

func (a fleetAPI) RemoveOrganizationClients(ctx context.Context, org string, clients []string) error {
	_, err := call(ctx, a, schema.OpRemoveOrganizationClients, http.MethodDelete, func(ctx context.Context) error {
		return a.client.RemoveOrganizationClients(ctx, org, clients)
	}, func(s sent) (struct{}, error) {
		for _, id := range clients {
			if c := a.tn.clients[id]; c != nil && c.org == org && len(c.removed) == 0 {
				c.removed = append(c.removed, s)
			}
		}
		return struct{}{}, nil
	})
	return err
}

func (a fleetAPI) CreateTemplate(ctx context.Context, r schema.TemplateRequest,
	intent apiclient.Intent) (schema.Template, error) {
	return call(ctx, a, schema.OpCreateTemplate, http.MethodPost, func(ctx context.Context) error {
		_, err := a.client.CreateTemplate(ctx, r, intent)
		return err
	}, func(s sent) (schema.Template, error) {
		// The name of a template is refused whose intent Redis may have forgotten, as the API
		// refuses all names that are taken. No other is: the oracle is to see it twice.
		if slices.ContainsFunc(a.tn.byName[r.Name], func(t *fleetTemplate) bool {
			return a.tn.f.redis.wasLost(t.created.permit)
		}) {
			return schema.Template{}, &apiclient.Error{Operation: schema.OpCreateTemplate, Method: http.MethodPost,
				Path: "/x", Status: http.StatusConflict, Title: "Conflict"}
		}
		t := &fleetTemplate{
			schema.Template{ID: fmt.Sprintf("vct_%d", len(a.tn.templates)), TemplateRequest: r, CreatedAt: s.at}, s,
		}
		a.tn.templates = append(a.tn.templates, t)
		a.tn.byName[r.Name] = append(a.tn.byName[r.Name], t)
		return t.Template, nil
	})
}

// fleetPage is the size of the API's pages.
const fleetPage = 100

// Templates implements [handlers.Templates].
func (a fleetAPI) Templates(ctx context.Context) iter.Seq2[schema.Template, error] {
	return func(yield func(schema.Template, error) bool) {
		for from := 0; ; from += fleetPage {
			page, err := call(ctx, a, schema.OpListTemplates, http.MethodGet, func(ctx context.Context) error {
				for _, err := range a.client.Templates(ctx) {
					return err
				}
				return nil
			}, func(sent) ([]*fleetTemplate, error) {
				all := a.tn.templates
				return all[min(from, len(all)):min(from+fleetPage, len(all))], nil
			})
			if err != nil {
				yield(schema.Template{}, err)
				return
			}
			for _, t := range page {
				if !yield(t.Template, nil) {
					return
				}
			}
			if len(page) < fleetPage {
				return
			}
		}
	}
}

// pageOf returns a page of all, and the checkpoint of the next.
func pageOf[R, T any](all []R, from string, record func(R) T) (page []apiclient.Listed[T], next string) {
	first, _ := strconv.Atoi(from)
	last := min(first+fleetPage, len(all))
	for _, r := range all[min(first, last):last] {
		page = append(page, apiclient.Listed[T]{Record: record(r)})
	}
	if last < len(all) {
		next = strconv.Itoa(last)
	}
	return page, next
}

// OrganizationsPageFor returns no page: no run of a fleet removes a client everywhere.
func (fleetAPI) OrganizationsPageFor(context.Context,
	string, string) ([]apiclient.Listed[schema.OrganizationOf], string, error) {
	return nil, "", errors.New("the fleet's tenants do not know the parameter")
}

func (a fleetAPI) OrganizationsPage(ctx context.Context,
	from string) (page []apiclient.Listed[schema.Organization], next string, err error) {
	page, err = call(ctx, a, schema.OpListOrganizations, http.MethodGet, func(ctx context.Context) error {
		_, _, err := a.client.OrganizationsPage(ctx, from)
		return err
	}, func(sent) (some []apiclient.Listed[schema.Organization], err error) {
		some, next = pageOf(a.tn.orgs, from, func(id string) schema.Organization {
			return schema.Organization{ID: id, Name: id}
		})
		return some, nil
	})
	return page, next, err
}

func (a fleetAPI) DiscoveryDomainsPage(ctx context.Context,
	org, from string) (page []apiclient.Listed[schema.DiscoveryDomain], next string, err error) {
	page, err = call(ctx, a, schema.OpListDiscoveryDomains, http.MethodGet, func(ctx context.Context) error {
		_, _, err := a.client.DiscoveryDomainsPage(ctx, org, from)
		return err
	}, func(sent) (some []apiclient.Listed[schema.DiscoveryDomain], err error) {
		some, next = pageOf(a.tn.ofOrg[org], from, (*fleetDomain).record)
		return some, nil
	})
	return page, next, err
}

// fleetDNS is the DNS of a tenant's domains as a worker reaches it.
type fleetDNS struct{ *fleetPart }

// ask queries the zone. The query takes some time, and may have no answer.
func (d fleetDNS) ask(host, token string, proves bool) (v dnscheck.Verdict, err error) {
	if err := d.w.point(); err != nil {
		return v, err
	}
	f := d.tn.f
	v = dnscheck.Verdict{State: dnscheck.Unknown, Reason: dnscheck.ReasonTimeout, Host: host, Basis: dnscheck.ByBoth,
		Quorum: 2, Resolvers: resolvers}
	if f.roll() < .01 {
		time.Sleep(8 * time.Second)
		return v, d.w.point()
	}
	time.Sleep(f.upTo(100 * time.Millisecond))
	d.tn.mu.Lock()
	defer d.tn.mu.Unlock()
	domain := d.tn.byHost[host]
	if domain == nil {
		return v, fmt.Errorf("a check of %q, which is no host of the tenant", host)
	}
	if v.State, v.Reason = dnscheck.Absent, dnscheck.ReasonNoName; domain.token == token && !now().Before(domain.appears) {
		v.State, v.Reason = dnscheck.Present, dnscheck.ReasonFound
	}
	switch {
	case v.State != dnscheck.Present:
		domain.looked = now()
	case proves:
		domain.proven = now()
	}
	return v, nil
}

func (d fleetDNS) Check(_ context.Context, host, token string) (dnscheck.Verdict, error) {
	return d.ask(host, token, false)
}

func (d fleetDNS) Prove(_ context.Context, host, token string) (dnscheck.Verdict, error) {
	v, err := d.ask(host, token, true)
	return dnschecktest.Proven(v, token), err
}

func (d fleetDNS) Diagnose(context.Context, string, string, string, dnscheck.Verdict) (report.Diagnosis, error) {
	return report.Diagnosis{}, d.w.point()
}

func (d fleetDNS) Disprove(_ context.Context, host, token string) (dnscheck.Verdict, error) {
	return d.ask(host, token, false)
}

func (d fleetDNS) Operator(context.Context, string) (string, error) { return "", d.w.point() }

// roll returns a random number from 0 up to 1.
func (f *fleet) roll() float64 {
	f.rolling.Lock()
	defer f.rolling.Unlock()
	return f.dice.Float64()
}

func (f *fleet) upTo(longest time.Duration) time.Duration {
	return time.Duration(f.roll() * float64(longest))
}

func (f *fleet) shuffle(n int, swap func(i, j int)) {
	f.rolling.Lock()
	defer f.rolling.Unlock()
	rand.New(rand.NewPCG(f.dice.Uint64(), 0)).Shuffle(n, swap)
}
