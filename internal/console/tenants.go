package console

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"orgops/dnscheck"
	"orgops/internal/deliveries"
	"orgops/internal/health"
	"orgops/internal/ledger"
	"orgops/internal/status"
	"orgops/internal/view"
)

// tenantsAPage is how many tenants a page has.
const tenantsAPage = 50

// tenantList is a page of a list of tenants with a filter by name.
type tenantList struct {
	Path        string // of the list
	Text        string // of the filter: a part of the names
	Tenants     []status.Tenant
	First, Next string // paths of the first page and the one after this; empty: this is it, or the last
}

// listOf returns the page of a list that a request names.
func listOf(r *http.Request, all []status.Tenant) tenantList {
	query := r.URL.Query()
	l := tenantList{Path: r.URL.Path, Text: field(query, "q")}
	all = slices.DeleteFunc(slices.Clone(all), func(t status.Tenant) bool {
		return !strings.Contains(t.Name, strings.ToLower(l.Text))
	})
	from := max(slices.IndexFunc(all, func(t status.Tenant) bool { return t.Name == query.Get("from") }), 0)
	to := min(from+tenantsAPage, len(all))
	if from > 0 {
		l.First = link(l.Path, map[string]string{"q": l.Text})
	}
	if to < len(all) {
		l.Next = link(l.Path, map[string]string{"q": l.Text, "from": all[to].Name})
	}
	l.Tenants = all[from:to]
	return l
}

type tenantsPage struct {
	Tenant  *tenantView // nil: none of the names is requested
	Known   int         // how many tenants there are
	List    tenantList  // of them
	Missing string      // the requested tenant if it is unknown
	Plots   []plots
	Problem string // why Redis was not read; the rest needs none
}

// tenantView shows a tenant. Data that only a worker of the tenant has is empty on the pages of
// others.
type tenantView struct {
	Tenant
	State status.Tenant

	Name       string
	ServedHere bool
	Workers    int  // that live and serve it
	Announced  bool // a worker of it was seen
	Problem    string
	Warnings   []status.Warning // the worst first
	Used       float64          // of the limit, a share; below 0: not known
	UsedText   string
	Pace       []status.Fact
	Sweeps     []status.Fact
	Token      []status.Fact
	DNS        []status.Fact
	Endpoints  []deliveries.EndpointState // of webhooks
	Errors     []APIError
}

func (v *tenantView) warn(urgent bool, what, fix string) {
	v.Warnings = append(v.Warnings, status.Warning{Urgent: urgent, What: what, Fix: fix})
}

// tenants shows the state of the requested tenant, or of the only one, and the names of all:
// GET /tenants.
func (s *site) tenants(ctx context.Context, r *http.Request) (title string, data any, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*view.FleetPatience)
	defer cancel()
	v := s.view(ctx)
	o, problem := s.overview(ctx, v, "")
	p := tenantsPage{Known: len(o.states), List: listOf(r, o.states), Missing: r.URL.Query().Get("tenant")}
	if p.Known == 1 {
		p.Missing = cmp.Or(p.Missing, o.Tenants[0])
	}
	if problem != nil {
		p.Problem = capital(unread(problem))
		cancel() // the rest would have to wait too
	}
	name := p.Missing
	at := slices.IndexFunc(o.states, func(t status.Tenant) bool { return t.Name == name })
	t, err := v.Tenant(name)
	if at < 0 || err != nil {
		return "Tenants", p, nil
	}
	p.Missing = ""
	p.Tenant = s.viewOfTenant(ctx, t, o.states[at], status.FleetOf(o.sessions))
	if hour, day, err := t.Meters(ctx); err == nil {
		p.Plots = []plots{plotsOf("Last hour", "a minute", hour), plotsOf("Last day", "a quarter of an hour", day)}
	}
	return "Tenant " + name, p, nil
}

func (s *site) viewOfTenant(ctx context.Context, own view.Tenant, state status.Tenant, fleet status.Fleet) *tenantView {
	name := own.Name()
	t, served := s.here.of(own)
	v := &tenantView{Tenant: t, State: state, Name: name, ServedHere: served, Workers: fleet[ledger.Tenant(name)],
		Announced: true, Used: -1, Warnings: state.Warnings()}

	// What its settings and Redis say, wherever it is served.
	settings := t.Settings.Announced
	var noSettings, noRate, noSchedule error
	if !served {
		settings, v.Announced, noSettings = own.Announced(ctx)
	}
	if v.Announced {
		var permits status.Permits
		permits, noRate = state.Permits(settings)
		v.Used = permits.Share()
		v.UsedText = permits.String()
	}
	v.Pace = state.PaceFacts(settings, v.Announced)
	v.Sweeps, noSchedule = state.SweepFacts(settings, v.Announced, time.Now())
	var endpoints []string
	for _, e := range t.Webhooks {
		endpoints = append(endpoints, e.Name)
	}
	var noDeliveries error
	v.Endpoints, noDeliveries = own.Endpoints(ctx, endpoints...)
	v.DNS = status.DNSFacts(settings, v.Announced, nil, nil)

	// What only a worker of it knows.
	if served {
		v.showHere()
	}
	v.sayOnce()
	if err := errors.Join(noSettings, noRate, noSchedule, noDeliveries); err != nil {
		v.Problem = unread(err)
	}
	return v
}

// sayOnce refers to a reason that a warning has where it would be repeated below.
func (v *tenantView) sayOnce() {
	for _, w := range v.Warnings {
		_, reason, has := strings.Cut(w.What, "Z: ") // after the time
		if !has {
			continue
		}
		once := func(text string) string { return strings.ReplaceAll(text, reason, "as above") }
		for _, facts := range [][]status.Fact{v.Pace, v.Token} {
			for i := range facts {
				facts[i].Text = once(facts[i].Text)
			}
		}
		for i := range v.Errors {
			v.Errors[i].Text = once(v.Errors[i].Text)
		}
		for i := range v.Endpoints {
			v.Endpoints[i].Failure = once(v.Endpoints[i].Failure)
		}
	}
}

// showHere sets the parts that only a worker of the tenant has: the state of the token, never the
// token, that of name servers and resolvers, and the last errors of the API.
func (v *tenantView) showHere() {
	v.Errors = v.Tenant.Errors.Last()
	if v.API != nil {
		v.Token = health.TokenFacts(v.API.TokenHealth())
	}
	if v.Tenant.DNS == nil {
		return
	}
	resolvers := v.Tenant.DNS.Resolvers()
	var way *dnscheck.Network // nil: no name server is queried
	if v.Network != nil {
		way = new(v.Network())
		for _, fault := range way.Faults() {
			if !fault.Usual {
				v.warn(false, "From here, "+fault.What+".", fault.Fix+".")
			}
		}
	}
	for _, r := range resolvers {
		if r.InTheClear {
			v.warn(false, "Resolver "+r.Name+" is queried without encryption, so its answers can be forged on the path.",
				"Use https:// for it in --resolvers.")
		}
	}
	v.DNS = status.DNSFacts(v.Settings.Announced, true, resolvers, way)
}
