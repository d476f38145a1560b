package console

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"orgops/apiclient"
	"orgops/dnscheck"
	"orgops/internal/deliveries"
	"orgops/internal/ledger"
	"orgops/internal/redisconn"
	"orgops/internal/status"
	"orgops/internal/tenant"
	"orgops/internal/web"
	"orgops/tasks"
)

// tenantsAPage is how many tenants a page has.
const tenantsAPage = 50

type tenantsPage struct {
	Tenants []tenantView
	Names   []string // of all tenants; empty: they are on this page
	First   string   // path of the first page; empty: this is it
	Next    string   // path of the page after this one; empty: it is the last
	Missing string   // the requested tenant if it is unknown
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
	Warnings   []attention // the worst first
	Used       float64     // of the limit, a share; below 0: not known
	UsedText   string
	Schedule   string // of sweeps; empty: not known
	Token      *apiclient.TokenHealth
	Reach      *Reach // of name servers; nil: not known
	Resolvers  []dnscheck.ResolverState
	Endpoints  []deliveries.EndpointState // of webhooks
	Errors     []APIError
}

func (v *tenantView) warn(tone, what, then string) {
	v.Warnings = append(v.Warnings, attention{Tenant: v.Name, Tone: tone, What: what, Then: then})
}

// tenants shows the state of the tenants, GET /tenants: those of this worker, then others that
// have data in this Redis. If there are many, the page begins with the requested tenant.
func (s *site) tenants(ctx context.Context, r *http.Request) (title string, data any, err error) {
	queues, err := asynq.NewInspectorFromRedisClient(s.Redis).Queues()
	if err != nil {
		return "", nil, err
	}
	names, err := s.tenantNames(ctx, queues)
	if err != nil {
		return "", nil, err
	}
	fleet, err := status.ReadFleet(ctx, s.Ledger)
	if err != nil {
		return "", nil, err
	}
	p, names := pageOfTenants(names, r.URL.Query().Get("tenant"))
	p.Tenants = make([]tenantView, len(names))
	err = redisconn.Batch(ctx, s.Redis, len(names), func(i int, rdb redis.UniversalClient) error {
		p.Tenants[i] = s.viewOfTenant(ctx, rdb, names[i], fleet)
		return nil
	})
	return "Tenants", p, err
}

// pageOfTenants returns the page that begins with a tenant, or has all of them, and its tenants.
func pageOfTenants(all []string, begin string) (p tenantsPage, names []string) {
	from := slices.Index(all, begin)
	if from < 0 {
		p.Missing = begin
	}
	if len(all) <= tenantsAPage {
		return p, all
	}
	from = max(from, 0)
	to := min(from+tenantsAPage, len(all))
	p.Names = all
	if from > 0 {
		p.First = tenantsPath("")
	}
	if to < len(all) {
		p.Next = tenantsPath(all[to])
	}
	return p, all[from:to]
}

// tenantNames are those of this worker's tenants that the user may see, then others that have
// queues or open runs.
func (s *site) tenantNames(ctx context.Context, queues []string) (names []string, err error) {
	open, err := s.Ledger.OpenTenants(ctx)
	if err != nil {
		return nil, err
	}
	known, user := map[string]bool{}, web.Of(ctx).User
	for _, t := range s.Tenants() {
		if name := t.Settings.Tenant; user.MayTenant(name) {
			names = append(names, name)
			known[name] = true
		}
	}
	var others []string
	add := func(name string) {
		if !known[name] && user.MayTenant(name) && tasks.CheckTenant(name) == nil {
			known[name] = true
			others = append(others, name)
		}
	}
	for _, t := range open {
		add(string(t))
	}
	for _, queue := range queues {
		name, _, _ := strings.Cut(queue, ".")
		add(name)
	}
	slices.Sort(others)
	return append(names, others...), nil
}

func (s *site) viewOfTenant(ctx context.Context, rdb redis.UniversalClient, name string,
	fleet status.Fleet) tenantView {
	t, served := s.tenant(name)
	state, warnings, stateErr := attentionOf(ctx, rdb, name, fleet)
	v := tenantView{Tenant: t, State: state, Name: name, ServedHere: served, Workers: fleet[ledger.Tenant(name)],
		Announced: true, Used: -1, Warnings: warnings}
	var settingsErr error
	if !served {
		v.Settings, v.Announced, settingsErr = tenant.ReadAnnounced(ctx, rdb, name)
	}
	if v.Announced {
		settingsErr = v.showSettings()
	}
	var deliveriesErr error
	var endpoints []string
	for _, e := range t.Webhooks {
		endpoints = append(endpoints, e.Name)
	}
	v.Endpoints, deliveriesErr = deliveries.ReadEndpoints(ctx, rdb, name, endpoints...)
	if served {
		v.showToken()
		v.showDNS()
		v.Errors = t.Errors.Last()
	}
	if err := errors.Join(stateErr, settingsErr, deliveriesErr); err != nil {
		v.Problem = unread(err)
	}
	return v
}

// showSettings sets the used share of the budget, if it is known, and the schedule of sweeps.
func (v *tenantView) showSettings() error {
	limit, err := v.Settings.Limit()
	if err != nil {
		return err
	}
	switch {
	case limit.Rate.IsUnlimited():
		v.UsedText = "Unlimited rate: permits are not counted"
	case v.State.Pace != nil:
		left, _ := limit.Effective()
		perMinute := 60 * left.PerSecond()
		v.Used = min(float64(v.State.Pace.UsedLastMinute)/perMinute, 1)
		v.UsedText = fmt.Sprintf("%d of %d permits used in the last minute (%.0f %%)", v.State.Pace.UsedLastMinute,
			int(math.Round(perMinute)), 100*v.Used)
	}
	cron, err := v.Settings.Schedule()
	if err == nil {
		v.Schedule = status.ScheduleText(cron, time.Now())
	}
	return err
}

// showToken sets the state of the token, never the token.
func (v *tenantView) showToken() {
	if v.API == nil {
		return
	}
	health := v.API.TokenHealth()
	v.Token = &health
	if health.Err != nil {
		v.warn("bad", "No valid API token: "+printable(health.Err.Error()),
			"Fix the client's credentials. Until then all work that needs the API waits.")
	}
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
		v.warn("wait",
			"The domains' own name servers are unreachable from here. Only the resolvers are queried, and only resolvers over HTTPS can prove a domain.", "Open port 53 outwards (UDP and TCP), use https:// resolvers, or set --dns-mode resolvers.")
	}
	for _, r := range v.Resolvers {
		if r.InTheClear {
			v.warn("wait", "Resolver "+r.Name+" is queried without encryption, so its answers can be forged on the path.",
				"Use https:// for it in --resolvers.")
		}
	}
}

// percent formats a share.
func percent(share float64) string { return fmt.Sprintf("%g %%", 100*share) }
