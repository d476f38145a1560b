package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"orgops/apiclient"
	"orgops/dnscheck"
	"orgops/internal/deliveries"
	"orgops/internal/ledger"
	"orgops/internal/meters"
	"orgops/internal/redisconn"
	"orgops/internal/status"
	"orgops/internal/tenant"
	"orgops/internal/web"
)

// tenantsAPage is how many tenants a page has.
const tenantsAPage = 50

type tenantsPage struct {
	Tenants []tenantView
	Names   []string // of all tenants; empty: they are on this page
	First   string   // path of the first page; empty: this is it
	Next    string   // path of the page after this one; empty: it is the last
	Missing string   // the requested tenant if it is unknown
	Plots   []plots  // of the tenant, if the page has one
	Problem string   // why Redis was not read; the rest is what this worker knows
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
	Deliveries *asynq.QueueInfo // nil: there was never a delivery
	Errors     []APIError
}

func (v *tenantView) warn(tone, what, then string) {
	v.Warnings = append(v.Warnings, attention{Tenant: v.Name, Tone: tone, What: what, Then: then})
}

// tenants shows the state of the tenants, GET /tenants: of all, or of the requested one.
func (s *site) tenants(ctx context.Context, r *http.Request) (title string, data any, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*fleetPatience)
	defer cancel()
	f, problem := s.readFleet(ctx)
	if problem != nil {
		cancel() // the rest would have to wait too
	}
	var names []string
	for _, t := range f.tenants {
		if web.Of(ctx).User.MayTenant(t.Name) {
			names = append(names, t.Name)
		}
	}
	p, names := pageOfTenants(names, r.URL.Query().Get("tenant"), r.URL.Query().Get("from"))
	p.Tenants = make([]tenantView, len(names))
	err = redisconn.Batch(ctx, s.Redis, len(names), func(i int, rdb redis.UniversalClient) error {
		p.Tenants[i] = s.viewOfTenant(ctx, rdb, names[i], status.FleetOf(f.sessions))
		return nil
	})
	if problem != nil {
		p.Problem = capital(unread(problem))
		return "Tenants", p, nil
	}
	if len(names) == 1 && err == nil {
		var past meters.History
		past, err = meters.Read(ctx, s.Redis, names[0])
		p.Plots = plotsOf(past)
	}
	return "Tenants", p, err
}

// pageOfTenants returns the page of the requested tenant, or a page of all that begins with one,
// and its tenants.
func pageOfTenants(all []string, one, begin string) (p tenantsPage, names []string) {
	if slices.Contains(all, one) {
		if len(all) > 1 {
			p.Names, p.First = all, tenantsPath("", "")
		}
		return p, []string{one}
	}
	p.Missing = one
	if len(all) <= tenantsAPage {
		return p, all
	}
	from := max(slices.Index(all, begin), 0)
	to := min(from+tenantsAPage, len(all))
	p.Names = all
	if from > 0 {
		p.First = tenantsPath("", "")
	}
	if to < len(all) {
		p.Next = tenantsPath("", all[to])
	}
	return p, all[from:to]
}

func (s *site) viewOfTenant(ctx context.Context, rdb redis.UniversalClient, name string,
	fleet status.Fleet) tenantView {
	t, served := s.tenant(name)
	state, stateErr := status.ReadDetails(ctx, rdb, name, fleet)
	v := tenantView{Tenant: t, State: state, Name: name, ServedHere: served, Workers: fleet[ledger.Tenant(name)],
		Announced: true, Used: -1, Warnings: attentionOf(state)}
	var settingsErr error
	if !served {
		v.Settings, v.Announced, settingsErr = tenant.ReadAnnounced(ctx, rdb, name)
	}
	if v.Announced {
		settingsErr = v.showSettings()
	}
	var deliveriesErr error
	v.Deliveries, deliveriesErr = deliveriesOf(rdb, name)
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

// deliveriesOf returns the queue of a tenant's deliveries; nil: there was never one.
func deliveriesOf(rdb redis.UniversalClient, tenant string) (*asynq.QueueInfo, error) {
	queue, err := asynq.NewInspectorFromRedisClient(rdb).GetQueueInfo(deliveries.Queue(tenant))
	switch {
	case errors.Is(err, asynq.ErrQueueNotFound):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("queue of deliveries: %w", err)
	}
	return queue, nil
}

// waiting returns how many tasks of a queue are not done.
func waiting(queue *asynq.QueueInfo) int {
	return queue.Pending + queue.Scheduled + queue.Retry + queue.Active
}

// percent formats a share.
func percent(share float64) string { return fmt.Sprintf("%g %%", 100*share) }
