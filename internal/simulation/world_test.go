package simulation_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"orgops/apiclient"
	"orgops/dnscheck"
)

// throw returns a number from 0 up to 1 that depends on the seed, on the domain and on the
// number of throws for it, and not on the order of the domains.
func (p *place) throw(seed uint64) float64 {
	x := seed ^ uint64(p.number)*0x9e3779b97f4a7c15 ^ p.thrown.Add(1)*0xbf58476d1ce4e5b9 // splitmix64
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	x ^= x >> 31
	return float64(x>>11) / (1 << 53)
}

// simulatedDNS is a checker on the history: it has three resolvers and the zone's name
// servers, each of which may fail independently.
type simulatedDNS struct {
	h      *history
	seed   uint64
	now    func() time.Time
	mu     sync.Mutex
	checks int
}

// resolvers is their number; a quorum is two.
const resolvers = 3

// saw is the answer of a resolver, or of the name servers.
type saw struct {
	state  dnscheck.State
	reason dnscheck.Reason
}

// server returns the answer of the name servers.
func (d *simulatedDNS) server(p *place, token string) saw {
	now := d.now()
	switch {
	case d.h.outages.holds(now), p.down.holds(now):
		return saw{dnscheck.Unknown, dnscheck.ReasonTimeout}
	case p.throw(d.seed) < .01:
		return saw{dnscheck.Unknown, dnscheck.ReasonServFail}
	}
	return d.zone(p, token, now, now)
}

// resolver returns the answer of a resolver, which may be up to an hour old.
func (d *simulatedDNS) resolver(p *place, token string) saw {
	now := d.now()
	if d.h.outages.holds(now) || p.throw(d.seed) < .02 {
		return saw{dnscheck.Unknown, dnscheck.ReasonUnreachable}
	}
	cached := now.Add(-time.Duration(p.throw(d.seed) * float64(time.Hour)))
	if p.down.holds(cached) && !d.h.lies.holds(now) {
		return saw{dnscheck.Unknown, dnscheck.ReasonServFail}
	}
	return d.zone(p, token, now, cached)
}

func (d *simulatedDNS) zone(p *place, token string, now, as time.Time) saw {
	switch {
	case d.h.lies.holds(now):
		return saw{dnscheck.Absent, dnscheck.ReasonNoName}
	case p.blank.holds(as):
		return saw{dnscheck.Absent, dnscheck.ReasonNoName}
	case p.txt(as) == token:
		return saw{dnscheck.Present, dnscheck.ReasonFound}
	case p.txt(as) != "":
		return saw{dnscheck.Absent, dnscheck.ReasonOtherValue}
	}
	return saw{dnscheck.Absent, p.absent}
}

// polled counts the answers of the resolvers.
func (d *simulatedDNS) polled(p *place, token string) (present, absent int) {
	for range resolvers {
		switch d.resolver(p, token).state {
		case dnscheck.Present:
			present++
		case dnscheck.Absent:
			absent++
		}
	}
	return present, absent
}

func (d *simulatedDNS) ask(ctx context.Context, host string,
	rule func(*place) (saw, dnscheck.Basis)) (dnscheck.Verdict, error) {
	if err := ctx.Err(); err != nil {
		return dnscheck.Verdict{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.checks++
	p := d.h.byHost[strings.ToLower(host)]
	if p == nil {
		return dnscheck.Verdict{}, fmt.Errorf("a check of %q, which is no host of the history", host)
	}
	found, basis := rule(p)
	v := dnscheck.Verdict{State: found.state, Reason: found.reason, Host: host, Basis: basis,
		Quorum: 2, Resolvers: resolvers}
	if found.state != dnscheck.Unknown {
		v.Operator = p.operator
	}
	if found.reason == dnscheck.ReasonOtherValue {
		v.Observations = []dnscheck.Observation{{
			Resolver: "ns1.parked.example", Authority: basis == dnscheck.ByAuthority, Transport: "udp", State: dnscheck.Absent,
			Reason: dnscheck.ReasonOtherValue, Values: []string{"v=parked\x1b[31m"}, RCode: "NOERROR",
		}}
	}
	return v, nil
}

// Check implements [handlers.DNS]. It returns the answer of the name servers, or else that of a
// quorum.
func (d *simulatedDNS) Check(ctx context.Context, host, token string) (dnscheck.Verdict, error) {
	v, err := d.ask(ctx, host, func(p *place) (saw, dnscheck.Basis) {
		seen := d.server(p, token)
		switch {
		case seen.state == dnscheck.Present && (p.split || p.throw(d.seed) < p.noisy):
			return saw{dnscheck.Absent, dnscheck.ReasonNoRecord}, dnscheck.ByAuthority
		case seen.state != dnscheck.Unknown:
			return seen, dnscheck.ByAuthority
		}
		return d.quorum(p, token), dnscheck.ByResolvers
	})
	switch p := d.h.byHost[strings.ToLower(host)]; {
	case err != nil:
	case v.State == dnscheck.Absent:
		p.missed = append(p.missed, d.now())
	case v.State == dnscheck.Present:
		p.found = append(p.found, d.now())
	}
	return v, err
}

func (d *simulatedDNS) quorum(p *place, token string) saw {
	switch present, absent := d.polled(p, token); {
	case present >= 2:
		return saw{dnscheck.Present, dnscheck.ReasonFound}
	case absent >= 2:
		return saw{dnscheck.Absent, p.absent}
	}
	return saw{dnscheck.Unknown, dnscheck.ReasonTimeout}
}

// Diagnose implements [handlers.DNS]: it finds a mistake with each absent record.
func (d *simulatedDNS) Diagnose(_ context.Context, host, _, _ string, v dnscheck.Verdict) (dnscheck.Diagnosis, error) {
	if v.State != dnscheck.Absent {
		return dnscheck.Diagnosis{}, nil
	}
	return dnscheck.Diagnosis{Findings: []dnscheck.Finding{{Mistake: dnscheck.MistakeOther, Host: host}}}, nil
}

// Prove implements [handlers.DNS]: name servers and a quorum must have the token.
func (d *simulatedDNS) Prove(ctx context.Context, host, token string) (dnscheck.Verdict, error) {
	return d.ask(ctx, host, func(p *place) (saw, dnscheck.Basis) {
		seen := d.server(p, token)
		if seen.state != dnscheck.Present {
			return seen, dnscheck.ByAuthority
		}
		if p.thin.holds(d.now()) {
			return saw{dnscheck.Unknown, dnscheck.ReasonTooFew}, dnscheck.ByBoth
		}
		if all := d.quorum(p, token); all.state != dnscheck.Present {
			return saw{dnscheck.Unknown, dnscheck.ReasonLag}, dnscheck.ByBoth
		}
		return seen, dnscheck.ByBoth
	})
}

// Disprove implements [handlers.RevokeDNS]: it queries all servers.
func (d *simulatedDNS) Disprove(ctx context.Context, host, token string) (dnscheck.Verdict, error) {
	v, err := d.ask(ctx, host, func(p *place) (saw, dnscheck.Basis) {
		server := d.server(p, token)
		present, absent := d.polled(p, token)
		switch {
		case server.state == dnscheck.Present || present > 0:
			return saw{dnscheck.Present, dnscheck.ReasonFound}, dnscheck.ByBoth
		case server.state == dnscheck.Absent && absent >= 2:
			return server, dnscheck.ByBoth
		}
		return saw{dnscheck.Unknown, cmp.Or(server.reason, dnscheck.ReasonTimeout)}, dnscheck.ByBoth
	})
	if v.State == dnscheck.Absent && err == nil {
		p := d.h.byHost[strings.ToLower(host)]
		p.disproofs = append(p.disproofs, d.now())
	}
	return v, err
}

// Operator implements [handlers.Operators].
func (d *simulatedDNS) Operator(_ context.Context, host string) (string, error) {
	return d.h.byHost[strings.ToLower(host)].operator, nil
}

// simulatedAPI is the tenant. Its reads may be old, and its answers may be lost.
type simulatedAPI struct {
	client *apiclient.Client

	h        *history
	seed     uint64
	now      func() time.Time
	mu       sync.Mutex
	patches  []patch
	requests map[string]int
	lists    place // for the random numbers of lists
}

type sentKey struct{}

// newAsking returns a client whose requests execute all steps before sending, and fail to
// send. It waits for the gate, if there is one, and calls the functions of
// [apiclient.BeforeSending].
func newAsking(t *testing.T, gate apiclient.Gate) *apiclient.Client {
	t.Helper()
	client, err := apiclient.New(apiclient.Config{
		BaseURL: "https://tenant.example/api/v2", Gate: gate, Tokens: apiclient.StaticToken(apiclient.NewSecret("token")),
		Network: apiclient.Network{Proxy: func(*url.URL) (*url.URL, error) {
			return nil, errors.New("a simulation has no network")
		}},
		Trace: func(ctx context.Context, _, _ string) (context.Context, func(int)) {
			if sent, ok := ctx.Value(sentKey{}).(*bool); ok {
				*sent = true
			}
			return ctx, func(int) {}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// sending returns why a request of a client of [newAsking] is not sent; nil: it is sent.
func sending(ctx context.Context, request func(context.Context) error) error {
	sent := new(bool)
	err := request(context.WithValue(ctx, sentKey{}, sent))
	if *sent {
		return nil
	}
	return err
}

// patch is a PATCH that was carried out.
type patch struct {
	at            time.Time
	place         *place
	before, after state
	sent          apiclient.DiscoveryDomainUpdate
}

// oldest is how old a read may be.
const oldest = 5 * time.Minute

// trouble returns the error of a request, before or after it has had its effect.
func (a *simulatedAPI) trouble(operation, method string, p *place) (before, after error) {
	answer := func(status int) error {
		return &apiclient.Error{Operation: operation, Method: method, Path: "/x", Status: status,
			Title: http.StatusText(status), RetryAfter: 2 * time.Second}
	}
	a.requests[operation]++
	if a.h.refusals.holds(a.now()) {
		return answer(http.StatusServiceUnavailable), nil
	}
	rate := .01
	if method == http.MethodPatch {
		rate = .15
	}
	lost := &apiclient.TransportError{Operation: operation, Method: method, Path: "/x", Sent: true,
		Err: errors.New("connection reset by peer")}
	switch x := p.throw(a.seed) / rate; {
	case x < .2:
		return answer(http.StatusServiceUnavailable), nil
	case x < .4:
		return answer(http.StatusTooManyRequests), nil
	case x < .5:
		return lost, nil
	case x < .7:
		return nil, answer(http.StatusInternalServerError)
	case x < 1:
		return nil, lost
	}
	return nil, nil
}

// read returns a record as it was up to five minutes ago.
func (a *simulatedAPI) read(p *place) state {
	now := a.now()
	if p.throw(a.seed) < .3 {
		return p.at(now.Add(-time.Duration(p.throw(a.seed) * float64(oldest))))
	}
	return p.at(now)
}

func (a *simulatedAPI) record(p *place, s state) apiclient.DiscoveryDomain {
	d := apiclient.DiscoveryDomain{
		ID: p.id, Domain: p.name, Status: apiclient.StatusPending, VerificationHost: p.host(), VerificationTXT: s.token,
		UseForOrganizationDiscovery: s.flag,
	}
	if s.verified {
		d.Status = apiclient.StatusVerified
	}
	if p.hidden.holds(a.now()) {
		d.UseForOrganizationDiscovery = nil
	}
	return d
}

func notFound(operation, method string) error {
	return &apiclient.Error{Operation: operation, Method: method, Path: "/x", Status: http.StatusNotFound,
		Title: "Not Found", Message: "No organization domain found by that id"}
}

// DiscoveryDomain implements [handlers.Domains].
func (a *simulatedAPI) DiscoveryDomain(ctx context.Context, org, id string) (d apiclient.DiscoveryDomain, err error) {
	err = sending(ctx, func(ctx context.Context) (err error) {
		_, err = a.client.DiscoveryDomain(ctx, org, id)
		return err
	})
	if err != nil {
		return d, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.h.byID[id]
	before, after := a.trouble(apiclient.OpGetDiscoveryDomain, http.MethodGet, p)
	if err := cmp.Or(ctx.Err(), before, after); err != nil {
		return d, err
	}
	s := a.read(p)
	p.meet(a.now(), "GET: %s", s)
	if s.gone {
		return d, notFound(apiclient.OpGetDiscoveryDomain, http.MethodGet)
	}
	return a.record(p, s), nil
}

// UpdateDiscoveryDomain implements [handlers.Domains]. An omitted flag becomes true, the default
// of the specification.
func (a *simulatedAPI) UpdateDiscoveryDomain(ctx context.Context, org, id string,
	u apiclient.DiscoveryDomainUpdate) (d apiclient.DiscoveryDomain, err error) {
	err = sending(ctx, func(ctx context.Context) (err error) {
		_, err = a.client.UpdateDiscoveryDomain(ctx, org, id, u)
		return err
	})
	if err != nil {
		return d, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.h.byID[id]
	before, after := a.trouble(apiclient.OpUpdateDiscoveryDomain, http.MethodPatch, p)
	if err := cmp.Or(ctx.Err(), before); err != nil {
		return d, err
	}
	was := p.at(a.now())
	if was.gone {
		return d, notFound(apiclient.OpUpdateDiscoveryDomain, http.MethodPatch)
	}
	is := was.patched(a.now(), u)
	p.states = append(p.states, is)
	a.patches = append(a.patches, patch{a.now(), p, was, is, u})
	p.meet(a.now(), "PATCH: %s -> %s, answered with %v", was, is, after)
	return a.record(p, is), after
}

func (s state) patched(now time.Time, u apiclient.DiscoveryDomainUpdate) state {
	s.at = now
	if verified := u.Status != nil && *u.Status == apiclient.StatusVerified; u.Status != nil && verified != s.verified {
		s.verified, s.statusBy = verified, byUs
	}
	flag := new(true)
	if u.UseForOrganizationDiscovery != nil {
		flag = new(*u.UseForOrganizationDiscovery)
	}
	if s.flag == nil || *s.flag != *flag {
		s.flag, s.flagBy = flag, byUs
	}
	return s
}

// OrganizationsPage implements [scan.API].
func (a *simulatedAPI) OrganizationsPage(ctx context.Context,
	from string) (page []apiclient.Listed[apiclient.Organization], next string, err error) {
	const most = 100
	err = sending(ctx, func(ctx context.Context) (err error) {
		_, _, err = a.client.OrganizationsPage(ctx, "")
		return err
	})
	if err != nil {
		return nil, "", err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	before, after := a.trouble(apiclient.OpListOrganizations, http.MethodGet, &a.lists)
	if err := cmp.Or(ctx.Err(), before, after); err != nil {
		return nil, "", err
	}
	first, _ := strconv.Atoi(from)
	for i := first; i < len(a.h.orgs) && i < first+most; i++ {
		if o := a.h.orgs[i]; o.gone.IsZero() || a.now().Before(o.gone) {
			page = append(page, apiclient.Listed[apiclient.Organization]{Record: apiclient.Organization{ID: o.id, Name: o.id}})
		}
	}
	if first+most < len(a.h.orgs) {
		next = strconv.Itoa(first + most)
	}
	return page, next, nil
}

// DiscoveryDomainsPage implements [scan.API].
func (a *simulatedAPI) DiscoveryDomainsPage(ctx context.Context,
	org, _ string) (page []apiclient.Listed[apiclient.DiscoveryDomain], next string, err error) {
	err = sending(ctx, func(ctx context.Context) (err error) {
		_, _, err = a.client.DiscoveryDomainsPage(ctx, org, "")
		return err
	})
	if err != nil {
		return nil, "", err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	n, err := strconv.Atoi(strings.TrimPrefix(org, "org_"))
	if err != nil {
		return nil, "", err
	}
	o := a.h.orgs[n]
	before, after := a.trouble(apiclient.OpListDiscoveryDomains, http.MethodGet, o.domains[0])
	if err := cmp.Or(ctx.Err(), before, after); err != nil {
		return nil, "", err
	}
	if !o.gone.IsZero() && !a.now().Before(o.gone) {
		return nil, "", notFound(apiclient.OpListDiscoveryDomains, http.MethodGet)
	}
	for _, p := range o.domains {
		s := a.read(p)
		if !s.verified {
			p.meet(a.now(), "listed: %s", s)
		}
		if !s.gone {
			page = append(page, apiclient.Listed[apiclient.DiscoveryDomain]{Record: a.record(p, s)})
		}
	}
	return page, "", nil
}

func (p *place) meet(at time.Time, format string, args ...any) {
	p.met = append(p.met, at.Format("01-02 15:04:05 ")+fmt.Sprintf(format, args...))
}

// story returns the events of a domain, for a failure.
func (s *simulation) story(p *place) string {
	var out strings.Builder
	for _, z := range p.zone {
		fmt.Fprintf(&out, "  zone %s %q\n", z.at.Format("01-02 15:04:05"), z.token)
	}
	for _, st := range p.states {
		fmt.Fprintf(&out, "  state %s %s %q by %v %v\n", st.at.Format("01-02 15:04:05"), st, st.token, st.statusBy, st.flagBy)
	}
	for _, m := range p.met {
		fmt.Fprintf(&out, "  %s\n", m)
	}
	raw, _ := s.store.Domain(context.Background(), p.id)
	fmt.Fprintf(&out, "  stored state %s\n", raw)
	return out.String()
}
