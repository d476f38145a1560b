package console

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"

	"orgops/apiclient"
	"orgops/dnscheck"
	"orgops/internal/deliveries"
	"orgops/internal/ledger"
	"orgops/internal/meters"
	"orgops/internal/status"
	"orgops/internal/tenant"
)

type tenantsPage struct {
	Tenant  *tenantView // nil: none of the names is requested
	Names   []string    // of all tenants
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
	Schedule   string // of sweeps; empty: not known
	Token      *apiclient.TokenHealth
	Reach      *Reach // of name servers; nil: not known
	Resolvers  []dnscheck.ResolverState
	Endpoints  []deliveries.EndpointState // of webhooks
	Errors     []APIError
}

func (v *tenantView) warn(urgent bool, what, fix string) {
	v.Warnings = append(v.Warnings, status.Warning{Urgent: urgent, What: what, Fix: fix})
}

// tenants shows the state of the requested tenant, or of the only one, and the names of all:
// GET /tenants.
func (s *site) tenants(ctx context.Context, r *http.Request) (title string, data any, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*fleetPatience)
	defer cancel()
	o, problem := s.overview(ctx, "")
	p := tenantsPage{Names: o.Tenants, Missing: r.URL.Query().Get("tenant")}
	if len(p.Names) == 1 {
		p.Missing = cmp.Or(p.Missing, p.Names[0])
	}
	if problem != nil {
		p.Problem = capital(unread(problem))
		cancel() // the rest would have to wait too
	}
	name := p.Missing
	at := slices.IndexFunc(o.states, func(t status.Tenant) bool { return t.Name == name })
	if at < 0 {
		return "Tenants", p, nil
	}
	p.Missing, p.Tenant = "", s.viewOfTenant(ctx, o.states[at], status.FleetOf(o.sessions))
	if hour, day, err := meters.Read(ctx, s.Redis, name); err == nil {
		p.Plots = []plots{plotsOf("Last hour", "a minute", hour), plotsOf("Last day", "a quarter of an hour", day)}
	}
	return "Tenant " + name, p, nil
}

func (s *site) viewOfTenant(ctx context.Context, state status.Tenant, fleet status.Fleet) *tenantView {
	name := state.Name
	t, served := s.tenant(name)
	v := &tenantView{Tenant: t, State: state, Name: name, ServedHere: served, Workers: fleet[ledger.Tenant(name)],
		Announced: true, Used: -1, Warnings: state.Warnings()}
	var settingsErr error
	if !served {
		v.Settings, v.Announced, settingsErr = tenant.ReadAnnounced(ctx, s.Redis, name)
	}
	if v.Announced {
		settingsErr = v.showSettings()
	}
	var deliveriesErr error
	var endpoints []string
	for _, e := range t.Webhooks {
		endpoints = append(endpoints, e.Name)
	}
	v.Endpoints, deliveriesErr = deliveries.ReadEndpoints(ctx, s.Redis, name, endpoints...)
	if served {
		v.showToken()
		v.showDNS()
		v.Errors = t.Errors.Last()
	}
	if err := errors.Join(settingsErr, deliveriesErr); err != nil {
		v.Problem = unread(err)
	}
	return v
}

// showSettings sets the used share of the budget, if it is known, and the schedule of sweeps.
func (v *tenantView) showSettings() error {
	var rateErr error
	v.Used, v.UsedText, rateErr = v.State.RateUsed(v.Settings)
	cron, err := v.Settings.Schedule()
	if err == nil {
		v.Schedule = status.ScheduleText(cron, time.Now())
	}
	return cmp.Or(rateErr, err)
}

// showToken sets the state of the token, never the token.
func (v *tenantView) showToken() {
	if v.API == nil {
		return
	}
	health := v.API.TokenHealth()
	v.Token = &health
}

// showDNS sets the state of name servers and resolvers.
func (v *tenantView) showDNS() {
	if v.DNS == nil {
		return
	}
	v.Resolvers = v.DNS.Resolvers()
	if v.Tenant.Reach != nil {
		v.Reach = v.Tenant.Reach.Load()
	}
	if v.Reach != nil && !v.Reach.Reached {
		v.warn(false,
			"The domains' own name servers are unreachable from here. Only the resolvers are queried, and only resolvers over HTTPS can prove a domain.", "Open port 53 outwards (UDP and TCP), use https:// resolvers, or set --dns-mode resolvers.")
	}
	for _, r := range v.Resolvers {
		if r.InTheClear {
			v.warn(false, "Resolver "+r.Name+" is queried without encryption, so its answers can be forged on the path.",
				"Use https:// for it in --resolvers.")
		}
	}
}

// percent formats a share.
func percent(share float64) string { return strconv.FormatFloat(100*share, 'g', -1, 64) + " %" }
