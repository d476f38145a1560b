package ops

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

	"orgops/internal/cli"
	"orgops/internal/pace"
	"orgops/internal/watch"
	"orgops/tasks"
)

const (
	// tenantsWait is how long the page waits for Redis.
	tenantsWait = 10 * time.Second
	// liveTenants is up to how many tenants the page keeps itself up to date: each costs
	// some questions to Redis.
	liveTenants = 20
)

type tenantsPage struct {
	Live    bool
	Tenants []tenantView
}

// tenantView is what is shown of a tenant.
type tenantView struct {
	Name     string
	Served   bool
	Problem  string      // why a part of it could not be read
	Warnings []attention // what is wrong, the worst first
	Pace     []cli.Fact
	Used     float64 // of the limit, a share; below 0: not known
	UsedText string
	Token    []cli.Fact
	DNS      []cli.Fact
	Sweeps   []cli.Fact
	Webhooks []cli.Fact
	Errors   []APIError
}

func (v *tenantView) warn(tone, what, then string) {
	v.Warnings = append(v.Warnings, attention{Tenant: v.Name, Tone: tone, What: what, Then: then})
}

// tenants shows how each tenant stands: those of this worker, then others of whom
// something stands in this Redis.
func (s *site) tenants(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), tenantsWait)
	defer cancel()
	queues, err := asynq.NewInspectorFromRedisClient(s.Redis).Queues()
	if err != nil {
		s.unread(w, r, "tenants", err)
		return
	}
	open, err := s.Ledger.OpenByTenant(ctx)
	if err != nil {
		s.unread(w, r, "tenants", err)
		return
	}
	names := s.tenantNames(queues)
	p := tenantsPage{Live: len(names) <= liveTenants}
	for _, name := range names {
		p.Tenants = append(p.Tenants, s.viewOfTenant(ctx, name, queues, open[name].Lost))
	}
	s.show(w, r, http.StatusOK, "tenants", page{Title: "Tenants", Section: "tenants", Data: p})
}

// tenantNames are this worker's tenants, then those that have queues.
func (s *site) tenantNames(queues []string) []string {
	var names, others []string
	for _, t := range s.Tenants {
		names = append(names, t.Name)
	}
	for _, queue := range queues {
		name, _, _ := strings.Cut(queue, ".")
		if tasks.CheckTenant(name) == nil && !slices.Contains(names, name) && !slices.Contains(others, name) {
			others = append(others, name)
		}
	}
	slices.Sort(others)
	return append(names, others...)
}

func (s *site) viewOfTenant(ctx context.Context, name string, queues []string, lost int64) tenantView {
	v := tenantView{Name: name, Used: -1}
	t, served := s.tenant(name)
	v.Served = served
	attention, err := s.attentionOf(ctx, name, lost)
	v.Warnings = attention
	problems := []error{err}
	settings, announced, err := pace.Announced(ctx, s.Redis, name)
	problems = append(problems, err)
	if served {
		settings, announced = t.Settings, true
	}
	if !announced && err == nil {
		v.warn("wait", "No worker of this tenant has been seen on this Redis.", "Start one, or remove what was handed in for it.")
	}
	limiter := t.Limiter
	if limiter == nil {
		limiter = pace.New(pace.Config{Redis: s.Redis, Tenant: name})
	}
	problems = append(problems,
		s.tellPace(ctx, &v, limiter, settings, announced),
		s.tellSweeps(ctx, &v, settings, announced),
		s.tellWebhooks(&v, t, queues))
	if served {
		v.tellToken(t)
		v.tellDNS(t)
		v.Errors = t.Errors.Last()
	}
	if err := errors.Join(problems...); err != nil {
		v.Problem = unread(err)
	}
	return v
}

// tellPace says how the budget stands.
func (s *site) tellPace(ctx context.Context, v *tenantView, limiter *pace.Limiter, settings pace.Settings, announced bool) error {
	state, err := limiter.State(ctx)
	if err != nil {
		return err
	}
	if !state.PausedUntil.IsZero() {
		v.Pace = append(v.Pace, cli.Fact{Name: "paused", Text: "until " + state.PausedUntil.UTC().Format(time.RFC3339)})
	}
	for _, b := range state.Blocks {
		v.Pace = append(v.Pace, cli.Fact{Name: "blocked", Text: b.Operation + ": " + printable(b.Reason) + "; the next request is let through to see at " + b.NextProbe.UTC().Format(time.RFC3339)})
	}
	if !announced {
		return nil
	}
	rate, err := pace.ParseRate(settings.Rate)
	if err != nil {
		return fmt.Errorf("settings of tenant %s: %w", v.Name, err)
	}
	v.Pace = append(v.Pace, cli.Fact{Name: "rate", Text: fmt.Sprintf("%s, at most %d at once", settings.Rate, settings.Burst)},
		cli.Fact{Name: "reserve", Text: fmt.Sprintf("%g %% is left to others", 100*settings.Reserve)})
	used := fmt.Sprintf("%d permits in the last minute", state.UsedLastMinute)
	if !rate.IsUnlimited() {
		left, _ := pace.Limit{Rate: rate, Burst: settings.Burst, Reserve: settings.Reserve}.Effective()
		perMinute := 60 * left.PerSecond()
		v.Used = min(float64(state.UsedLastMinute)/perMinute, 1)
		used += fmt.Sprintf(" of %d that there are (%.0f %%)", int(math.Round(perMinute)), 100*v.Used)
	} else {
		used = "the rate is unlimited: permits are not counted"
	}
	v.UsedText = used
	if !settings.UpdatedAt.IsZero() {
		v.Pace = append(v.Pace, cli.Fact{Name: "told", Text: "by a worker at " + settings.UpdatedAt.UTC().Format(time.RFC3339)})
	}
	return nil
}

// tellToken says whether there is one, and never what it is.
func (v *tenantView) tellToken(t Tenant) {
	if t.API == nil {
		return
	}
	h := t.API.TokenHealth()
	add := func(name, text string) { v.Token = append(v.Token, cli.Fact{Name: name, Text: text}) }
	switch {
	case h.Err != nil:
		v.warn("bad", "There is no token that the API takes: "+printable(h.Err.Error()), "See to the client's credentials: nothing that needs the API goes on before.")
		add("state", "none that works")
	case h.GotAt.IsZero():
		add("state", "not fetched yet")
	default:
		add("state", "ok, came at "+h.GotAt.UTC().Format(time.RFC3339))
	}
	if !h.ExpiresAt.IsZero() {
		add("ends", h.ExpiresAt.UTC().Format(time.RFC3339)+", and is renewed before")
	}
	if h.LastErr != nil {
		add("last error", printable(h.LastErr.Error())+" (at "+h.FailedAt.UTC().Format(time.RFC3339)+")")
	}
	if h.Failures > 0 {
		add("failures", fmt.Sprint(h.Failures))
	}
	if len(h.Scopes) > 0 {
		add("scopes", printable(strings.Join(h.Scopes, " ")))
	}
}

// tellDNS says who is asked, and whose word counts.
func (v *tenantView) tellDNS(t Tenant) {
	if t.DNS == nil {
		return
	}
	add := func(name, text string) { v.DNS = append(v.DNS, cli.Fact{Name: name, Text: text}) }
	add("mode", t.DNSMode)
	switch reach := t.Reach.now(); {
	case reach.At.IsZero():
	case reach.Reached:
		add("name servers", "can be reached")
	default:
		add("name servers", "cannot be reached: "+printable(reach.Why))
		v.warn("wait", "The domains' own name servers cannot be reached from here: the resolvers answer alone, and only those over TLS or HTTPS prove a domain.", "Let port 53 out, UDP and TCP, name resolvers by tls://, or say --dns-mode resolvers.")
	}
	voting := 0
	for _, r := range t.DNS.Resolvers() {
		text := "has a vote"
		switch {
		case !r.Voting():
			text = "has no vote: it makes answers up (" + printable(r.Lies) + ")"
			v.warn("bad", "Resolver "+r.Name+" has lost its vote: it makes answers up.", "Use another resolver, or have this one leave NXDOMAIN alone; it gets its vote back by itself.")
		case r.Silent != "":
			text += ", but is silent: " + printable(r.Silent)
		}
		if r.Voting() {
			voting++
		}
		if r.InTheClear {
			text += "; asked in the clear"
			v.warn("wait", "Resolver "+r.Name+" is asked in the clear: whoever is on the path to it can forge its answers.", "Name it by tls:// or https:// in --resolvers.")
		}
		if !r.HeardAt.IsZero() {
			text += "; heard at " + r.HeardAt.UTC().Format(time.RFC3339)
		}
		add("resolver "+r.Name, "operator "+r.Operator+", perspective "+r.Perspective+"; "+text)
	}
	add("quorum", fmt.Sprintf("%d of %d have to agree; %d have a vote", t.Quorum, len(t.DNS.Resolvers()), voting))
}

// tellSweeps says when sweeps are, and what they have come to.
func (s *site) tellSweeps(ctx context.Context, v *tenantView, settings pace.Settings, announced bool) error {
	ticks, err := watch.New(s.Redis, v.Name).Ticks(ctx)
	if err != nil {
		return err
	}
	judgement, err := cli.JudgementOf(ctx, s.Redis, v.Name)
	if err != nil {
		return err
	}
	add := func(name, text string) {
		if text != "" {
			v.Sweeps = append(v.Sweeps, cli.Fact{Name: name, Text: text})
		}
	}
	if announced {
		var cron watch.Cron
		if settings.Sweep != "" && settings.Sweep != "off" {
			if cron, err = watch.ParseCron(settings.Sweep); err != nil {
				return fmt.Errorf("settings of tenant %s: sweep: %w", v.Name, err)
			}
		}
		add("schedule", cli.ScheduleText(cron, time.Now()))
	}
	add("skipped", cli.Skipped(ticks.Skipped))
	if judgement.Judged != nil {
		add("last sweep", cli.SweepText(*judgement.Judged))
	}
	add("breaker", judgement.BreakerText(v.Name))
	if announced {
		add("rules", cli.RulesText(cli.RulesOf(settings)))
	}
	return nil
}

// tellWebhooks says who is told of events, and which deliveries were given up.
func (s *site) tellWebhooks(v *tenantView, t Tenant, queues []string) error {
	for _, r := range t.Webhooks {
		v.Webhooks = append(v.Webhooks, cli.Fact{Name: r.Name, Text: r.Origin})
	}
	if !slices.Contains(queues, tasks.WebhookQueue(v.Name)) {
		return nil // nothing was ever in it
	}
	info, err := asynq.NewInspectorFromRedisClient(s.Redis).GetQueueInfo(tasks.WebhookQueue(v.Name))
	if err != nil {
		return fmt.Errorf("queue of deliveries: %w", err)
	}
	v.Webhooks = append(v.Webhooks, cli.Fact{Name: "waiting", Text: fmt.Sprint(info.Pending + info.Scheduled + info.Retry + info.Active)}, cli.Fact{Name: "given up", Text: fmt.Sprint(info.Archived)})
	if info.Archived > 0 {
		v.warn("wait", fmt.Sprintf("%d deliveries to webhooks were given up.", info.Archived), "Their errors are in the queue "+info.Queue+", archived; mend the receiver, and run them from there.")
	}
	return nil
}
