package ops

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/hibiken/asynq"

	"orgops/internal/cli"
	"orgops/internal/deliveries"
	"orgops/internal/pace"
	"orgops/internal/runs"
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
	Stopped  bool        // by an operator
	Problem  string      // why a part of it could not be read
	Warnings []attention // what is wrong, the worst first
	Pace     facts
	Used     float64 // of the limit, a share; below 0: not known
	UsedText string
	Token    facts
	DNS      facts
	Sweeps   facts
	Webhooks facts
	Errors   []APIError
}

// facts are properties of a tenant, for people.
type facts []cli.Fact

// add adds a property, unless the text is empty.
func (f *facts) add(name, text string) {
	if text != "" {
		*f = append(*f, cli.Fact{Name: name, Text: text})
	}
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
	names := s.tenantNames(queues, open)
	p := tenantsPage{Live: len(names) <= liveTenants}
	for _, name := range names {
		p.Tenants = append(p.Tenants, s.viewOfTenant(ctx, name, queues))
	}
	s.show(w, r, http.StatusOK, "tenants", page{Title: "Tenants", Section: "tenants", Data: p})
}

// tenantNames are this worker's tenants, then those that have queues or open runs.
func (s *site) tenantNames(queues []string, open map[string]runs.Open) []string {
	var names, others []string
	for _, t := range s.Tenants {
		names = append(names, t.Name)
	}
	for _, queue := range slices.Concat(queues, slices.Collect(maps.Keys(open))) {
		name, _, _ := strings.Cut(queue, ".")
		if tasks.CheckTenant(name) == nil && !slices.Contains(names, name) && !slices.Contains(others, name) {
			others = append(others, name)
		}
	}
	slices.Sort(others)
	return append(names, others...)
}

func (s *site) viewOfTenant(ctx context.Context, name string, queues []string) tenantView {
	t, served := s.tenant(name)
	state, stateErr := s.stateOf(ctx, name)
	v := tenantView{Name: name, Served: served, Used: -1, Warnings: state.attention(name)}
	settings, announced, settingsErr := pace.Announced(ctx, s.Redis, name)
	if served {
		settings, announced = t.Settings, true
	}
	if !announced && settingsErr == nil {
		v.warn("wait", "No worker of this tenant has been seen on this Redis.", "Start a worker for it, or delete its runs.")
	}
	problems := []error{stateErr, settingsErr, s.tellWebhooks(&v, t, queues)}
	if state.pace != nil {
		v.tellState(*state.pace)
	}
	if announced {
		problems = append(problems, v.tellSettings(settings, state.pace))
	}
	if state.sweeps != nil && state.ticks != nil {
		v.Sweeps.add("Skipped", cli.Skipped(state.ticks.Skipped))
		if state.sweeps.Summary != nil {
			v.Sweeps.add("Last sweep", cli.SweepText(*state.sweeps.Summary))
		}
		v.Sweeps.add("Breaker", state.sweeps.BreakerText(name))
	}
	if announced {
		v.Sweeps.add("Rules", cli.RulesText(cli.RulesOf(settings)))
	}
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

// tellState says what keeps the tenant's requests back.
func (v *tenantView) tellState(state pace.State) {
	v.Stopped = state.Stopped != nil
	if !state.PausedUntil.IsZero() {
		v.Pace.add("Paused", "until "+utc(state.PausedUntil))
	}
	for _, b := range state.Blocks {
		v.Pace.add("Blocked", b.Operation+": "+printable(b.Reason)+"; next test request at "+utc(b.NextProbe))
	}
}

// tellSettings says how large the budget is and, if the state is known, how much of it is
// used; and when sweeps are.
func (v *tenantView) tellSettings(settings pace.Settings, state *pace.State) error {
	rate, err := pace.ParseRate(settings.Rate)
	if err != nil {
		return fmt.Errorf("settings of tenant %s: %w", v.Name, err)
	}
	v.Pace.add("Rate", fmt.Sprintf("%s, burst %d", settings.Rate, settings.Burst))
	v.Pace.add("Reserve", fmt.Sprintf("%g %% for other clients of the API", 100*settings.Reserve))
	switch {
	case rate.IsUnlimited():
		v.UsedText = "Unlimited rate: permits are not counted"
	case state != nil:
		left, _ := pace.Limit{Rate: rate, Burst: settings.Burst, Reserve: settings.Reserve}.Effective()
		perMinute := 60 * left.PerSecond()
		v.Used = min(float64(state.UsedLastMinute)/perMinute, 1)
		v.UsedText = fmt.Sprintf("%d of %d permits used in the last minute (%.0f %%)", state.UsedLastMinute, int(math.Round(perMinute)), 100*v.Used)
	}
	if !settings.UpdatedAt.IsZero() {
		v.Pace.add("Settings from", "a worker at "+utc(settings.UpdatedAt))
	}
	var cron watch.Cron
	if settings.Sweep != "" && settings.Sweep != "off" {
		if cron, err = watch.ParseCron(settings.Sweep); err != nil {
			return fmt.Errorf("settings of tenant %s: sweep: %w", v.Name, err)
		}
	}
	v.Sweeps.add("Schedule", cli.ScheduleText(cron, time.Now()))
	return nil
}

// utc is a moment as facts have it.
func utc(at time.Time) string { return at.UTC().Format(time.RFC3339) }

// tellToken says whether there is one, and never what it is.
func (v *tenantView) tellToken(t Tenant) {
	if t.API == nil {
		return
	}
	h := t.API.TokenHealth()
	switch {
	case h.Err != nil:
		v.warn("bad", "No valid API token: "+printable(h.Err.Error()), "Fix the client's credentials. Until then all work that needs the API waits.")
		v.Token.add("State", "no valid token")
	case h.GotAt.IsZero():
		v.Token.add("State", "not fetched yet")
	default:
		v.Token.add("State", "ok, fetched at "+utc(h.GotAt))
	}
	if !h.ExpiresAt.IsZero() {
		v.Token.add("Expires", utc(h.ExpiresAt)+" (renewed automatically)")
	}
	if h.LastErr != nil {
		v.Token.add("Last error", printable(h.LastErr.Error())+" (at "+utc(h.FailedAt)+")")
	}
	if h.Failures > 0 {
		v.Token.add("Failures", fmt.Sprint(h.Failures))
	}
	if len(h.Scopes) > 0 {
		v.Token.add("Scopes", printable(strings.Join(h.Scopes, " ")))
	}
}

// tellDNS says who is asked, and whose word counts.
func (v *tenantView) tellDNS(t Tenant) {
	if t.DNS == nil {
		return
	}
	v.DNS.add("Mode", t.DNSMode)
	switch reach := t.Reach.now(); {
	case reach == nil:
	case reach.Reached:
		v.DNS.add("Name servers", "reachable")
	default:
		v.DNS.add("Name servers", "unreachable: "+printable(reach.Why))
		v.warn("wait", "The domains' own name servers are unreachable from here. Only the resolvers are queried, and only resolvers over TLS or HTTPS can prove a domain.", "Open port 53 outwards (UDP and TCP), use tls:// resolvers, or set --dns-mode resolvers.")
	}
	voting := 0
	for _, r := range t.DNS.Resolvers() {
		text := "has a vote"
		switch {
		case !r.Voting():
			text = "no vote: it forges answers (" + printable(r.Lies) + ")"
			v.warn("bad", "Resolver "+r.Name+" lost its vote because it forges answers.", "Use another resolver, or make this one return NXDOMAIN unchanged. It then regains its vote by itself.")
		case r.Silent != "":
			text += ", but is silent: " + printable(r.Silent)
		}
		if r.Voting() {
			voting++
		}
		if r.InTheClear {
			text += "; unencrypted"
			v.warn("wait", "Resolver "+r.Name+" is queried without encryption, so its answers can be forged on the path.", "Use tls:// or https:// for it in --resolvers.")
		}
		if !r.HeardAt.IsZero() {
			text += "; last answer at " + utc(r.HeardAt)
		}
		v.DNS.add("Resolver "+r.Name, "Operator "+r.Operator+", perspective "+r.Perspective+"; "+text)
	}
	v.DNS.add("Quorum", fmt.Sprintf("%d of %d must agree; %d have a vote", t.Quorum, len(t.DNS.Resolvers()), voting))
}

// tellWebhooks says who is told of events, and which deliveries were given up.
func (s *site) tellWebhooks(v *tenantView, t Tenant, queues []string) error {
	for _, r := range t.Webhooks {
		v.Webhooks.add(r.Name, r.Origin)
	}
	if !slices.Contains(queues, deliveries.Queue(v.Name)) {
		return nil // nothing was ever in it
	}
	info, err := asynq.NewInspectorFromRedisClient(s.Redis).GetQueueInfo(deliveries.Queue(v.Name))
	if err != nil {
		return fmt.Errorf("queue of deliveries: %w", err)
	}
	v.Webhooks.add("Waiting", fmt.Sprint(info.Pending+info.Scheduled+info.Retry+info.Active))
	v.Webhooks.add("Given up", fmt.Sprint(info.Archived))
	if info.Archived > 0 {
		v.warn("wait", fmt.Sprintf("orgops gave up %d webhook deliveries.", info.Archived), "Fix the receiver, then run the archived tasks in the queue "+info.Queue+", which also have the errors.")
	}
	return nil
}
