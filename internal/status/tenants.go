package status

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/dnscheck"
	"orgops/internal/deliveries"
	"orgops/internal/ledger"
	"orgops/internal/obstacle"
	"orgops/internal/redisconn"
	"orgops/internal/stamp"
	"orgops/internal/tenant"
)

// ReadTenants reads the details of tenants.
func ReadTenants(ctx context.Context, rdb redis.Cmdable, names []string, fleet Fleet) ([]Tenant, error) {
	all := make([]Tenant, len(names))
	err := redisconn.Batch(ctx, rdb, len(names), func(i int, rdb redis.Cmdable) (err error) {
		all[i], err = ReadDetails(ctx, rdb, names[i], fleet)
		return err
	})
	return all, err
}

// ReadHeld reads which tenants that the filter may select are held.
func (f *RunFilter) ReadHeld(ctx context.Context, rdb redis.Cmdable) error {
	l := ledger.New(rdb)
	fleet, noFleet := ReadFleet(ctx, l)
	names, noNames := Tenants(ctx, l)
	names = slices.DeleteFunc(names, func(name string) bool { return !f.ofTenant(ledger.Tenant(name)) })
	all, noTenants := ReadTenants(ctx, rdb, names, fleet)
	f.Held = map[string]bool{}
	for _, t := range all {
		f.Held[t.Name] = t.Held()
	}
	return cmp.Or(noFleet, noNames, noTenants)
}

// Warning is a matter of a tenant that needs attention.
type Warning struct {
	Urgent bool         `json:"urgent"` // a person has to act
	What   string       `json:"reason"` // capitalized by pages
	Fix    string       `json:"fix"`
	Act    string       `json:"-"`               // the remedy in some words, for a list of many tenants
	Since  time.Time    `json:"since,omitzero"`  // zero: not known; the text has it too
	Sweep  ledger.RunID `json:"sweep,omitempty"` // that found it; empty: none did
}

// mostStuck is how many runs are named that make no progress.
const mostStuck = 5

// Warnings returns the warnings about the tenant, the worst first.
func (t Tenant) Warnings() (all []Warning) {
	// What holds its rows.
	for _, o := range t.Obstacles {
		if o.Kind == obstacle.TenantPaused && t.Refused != nil {
			continue // the next one says more
		}
		all = append(all, Warning{Urgent: !o.Passes(), What: o.What, Fix: o.Fix, Act: o.Act, Since: o.Since})
	}
	if t.Refused != nil {
		all = append(all, t.refused())
	}

	// Runs that nothing carries on.
	for i, r := range t.Stuck {
		if i == mostStuck {
			all = append(all, Warning{Urgent: true, What: CountOf(int64(len(t.Stuck)-i), "more run") + " make no progress",
				Fix: "enqueue runs list --tenant " + t.Name + " names them, with the reasons", Act: "see the list"})
			break
		}
		what := "run " + string(r.Run) + " makes no progress since " + stamp.UTC(r.Since)
		all = append(all, Warning{Urgent: true, What: what, Fix: r.Reason, Act: "see why", Since: r.Since})
	}

	// Findings of sweeps and rows.
	if t.Ticks != nil && t.Ticks.Skipped.Tick != 0 && t.Ticks.Skipped.Tick == t.Ticks.Tick {
		all = append(all, Warning{What: "a sweep was skipped: " + SkippedTick(t.Ticks.Skipped),
			Fix: "the next scheduled sweep starts once the cause is gone", Act: "remove the cause"})
	}
	if s := t.Sweep; s != nil && s.StillLost() > 0 {
		what := fmt.Sprintf("the sweep of %s found %s lost: the proven record is gone for the grace period",
			stamp.UTC(s.Tick), CountOf(s.StillLost(), "domain"))
		if s.Revoked > 0 {
			what += fmt.Sprintf("; %s more revoked since", Grouped(s.Revoked))
		}
		all = append(all, Warning{Urgent: true, What: what, Fix: reviewLost(t.Name), Act: "review them",
			Sweep: ledger.RunID(s.Run)})
	}
	if t.Withdrawn > 0 {
		what := "in the last seven days others have set " + CountOf(t.Withdrawn, "verified domain") + " to pending, deleted them " +
			"or given them another token"
		all = append(all, Warning{Urgent: true, What: what,
			Fix: "the log and the events domain.withdrawn name them: " + takeBack, Act: "review them"})
	}
	if s := t.Sweep; s != nil && s.Unknown > 0 {
		what := fmt.Sprintf("the sweep of %s got no clear answer for %s", stamp.UTC(s.Tick), CountOf(s.Unknown, "domain"))
		all = append(all, Warning{What: what, Fix: "the next sweep checks them again",
			Act: "nothing, the next sweep checks them", Sweep: ledger.RunID(s.Run)})
	}

	// Its receivers of events.
	for _, name := range slices.Sorted(maps.Keys(t.Dropped)) {
		all = append(all, Warning{Urgent: true, What: "webhook endpoint " + Shown(name) + ": " + DroppedText(t.Dropped[name]),
			Fix: "fix the receiver, and have it read what it missed by the intake's GET /v1/runs, or from the log, which " +
				"has each event: dropped ones are not sent again; webhook_backlog is how many may wait",
			Act: "fix the receiver", Since: t.Dropped[name].Since})
	}
	for _, name := range slices.Sorted(maps.Keys(t.Failing)) {
		failing := t.Failing[name]
		what := "webhooks fail since " + stamp.UTC(failing.Since) + ": " + ShownReason(failing.Reason)
		wait := "its events wait"
		if t.Dropped[name].Events > 0 {
			wait = "its newest events wait"
		}
		all = append(all, Warning{What: what,
			Fix: "fix the receiver; " + wait + ", and are sent again for three days; to send them now: enqueue tenant deliver " +
				t.Name + " " + name + ", or on the page of the tenant", Act: "fix the receiver", Since: failing.Since})
	}
	if t.GivenUp > 0 {
		all = append(all, Warning{What: CountOf(t.GivenUp, "webhook event") + " given up",
			Fix: "fix the receiver, then send them again on the page of the tenant, which has the errors, or by: " +
				"enqueue tenant deliver " + t.Name + " ENDPOINT --given-up", Act: "send them again"})
	}
	return all
}

// DroppedText describes events that were dropped.
func DroppedText(d deliveries.Dropped) string {
	return fmt.Sprintf("its backlog was full, and the oldest %s dropped since %s, the last at %s",
		CountOf(d.Events, "event"), stamp.UTC(d.Since), stamp.UTC(d.Last))
}

// refused returns the warning that the API refuses requests. Who sends too many is the question:
// our runs, or another client of the tenant.
func (t Tenant) refused() Warning {
	w := Warning{Urgent: t.Refused.Long, What: t.Refused.String(), Since: t.Refused.Since,
		Fix: "lower --rate, or find the other client that uses the tenant's limit",
		Act: "lower the rate, or find the other client"}
	permits, err := t.Permits(t.Announced)
	if err == nil && permits.Used != nil {
		w.Fix += "; ours: " + permits.String()
	}
	if senders := t.Refused.senders(); senders != "" {
		w.Fix += "; " + senders
	}
	if t.Known.Pace.Paused() {
		w.Fix += "; to try one request now: enqueue tenant start " + t.Name + ", or Try now on its page"
	}
	return w
}

// Held reports whether no row of the tenant, or of one of its operations, is executed until
// somebody acts.
func (t Tenant) Held() bool {
	return slices.ContainsFunc(t.Obstacles, func(o obstacle.Obstacle) bool { return !o.Passes() })
}

// Red reports whether somebody should act so that rows are executed at their rate.
func (t Tenant) Red() bool { return t.Held() || (t.Refused != nil && t.Refused.Long) }

// kindTexts are the states of a tenant by its worst obstacle, that of no worker first.
var kindTexts = []struct {
	kind obstacle.Kind
	text string
}{
	{obstacle.NoWorker, "without a worker"}, {obstacle.TenantStopped, "stopped"}, {obstacle.OperationBlocked, "blocked"},
	{obstacle.QueuePaused, "with a paused queue"}, {obstacle.TenantPaused, "paused by the API"},
	{obstacle.OperationPaused, "with an operation paused by the API"},
}

// refusedText is the state of a tenant whose requests the API refuses, and that nothing holds.
const refusedText = "refused by the API"

// State returns the state in words: the worst obstacle, or whether something needs attention.
func (t Tenant) State() string {
	if t.Refused != nil && !t.Held() {
		return refusedText
	}
	for _, k := range kindTexts {
		if len(t.Obstacles) > 0 && t.Obstacles[0].Kind == k.kind {
			return k.text
		}
	}
	if len(t.Warnings()) > 0 {
		return "needs attention"
	}
	return "well"
}

// Compare orders tenants: those that are held first, then those that the API refuses, and then
// others that need attention, each by name.
func (t Tenant) Compare(other Tenant) int {
	severity := func(t Tenant) int {
		switch {
		case t.Held():
			return -2
		case t.Red():
			return -1
		}
		return -min(len(t.Warnings()), 1) + 1
	}
	return cmp.Or(severity(t)-severity(other), cmp.Compare(t.Name, other.Name))
}

// Summary counts workers, the tenants that they serve, and the tenants by their worst obstacle:
// "2 workers serve 4 tenants; 1 stopped, 1 blocked".
func Summary(workers int, tenants []Tenant) string {
	states := map[string]int{}
	serve := "serve"
	if workers == 1 {
		serve = "serves"
	}
	for _, t := range tenants {
		states[t.State()]++
	}
	var held []string
	for _, k := range kindTexts {
		if n := states[k.text]; n > 0 {
			held = append(held, fmt.Sprintf("%d %s", n, k.text))
		}
	}
	if n := states[refusedText]; n > 0 {
		held = append(held, fmt.Sprintf("%d %s", n, refusedText))
	}
	served := len(tenants) - states[kindTexts[0].text]
	text := fmt.Sprintf("%s %s %s", CountOf(int64(workers), "worker"), serve, CountOf(int64(served), "tenant"))
	if len(held) > 0 {
		text += "; " + strings.Join(held, ", ")
	}
	return text
}

// OpenText describes the open rows of a tenant.
func OpenText(o ledger.OpenCounts) string {
	text := CountOf(o.Rows, "open row")
	if o.Paused > 0 {
		text += fmt.Sprintf(", %s in paused runs", Grouped(o.Paused))
	}
	return text
}

// Permits are the permits of a tenant's rate.
type Permits struct {
	Rate    string  `json:"rate"`
	Burst   int     `json:"burst"`
	Reserve float64 `json:"reserve_percent"`
	// PerMinute is how many there are without the reserve; 0: the rate is unlimited.
	PerMinute float64 `json:"per_minute,omitempty"`
	// Used is how many were used in the last minute; nil: not counted, or not known.
	Used *int64 `json:"used_last_minute,omitempty"`
}

// Permits returns those of the settings that a worker has announced.
func (t Tenant) Permits(settings tenant.Announced) (Permits, error) {
	limit, err := settings.Pace()
	if err != nil {
		return Permits{}, err
	}
	p := Permits{Rate: settings.Rate, Burst: settings.Burst, Reserve: settings.Reserve}
	if limit.Rate.IsUnlimited() {
		return p, nil
	}
	left, _ := limit.Effective()
	p.PerMinute = 60 * left.PerSecond()
	if t.Pace != nil {
		p.Used = &t.Pace.UsedLastMinute
	}
	return p, nil
}

// Share returns the used share of the last minute's permits; below 0: it is not known.
func (p Permits) Share() float64 {
	if p.Used == nil {
		return -1
	}
	return min(float64(*p.Used)/p.PerMinute, 1)
}

// String returns the same in words; "": it is not known.
func (p Permits) String() string {
	switch {
	case p.Used != nil:
		return fmt.Sprintf("%s of %s used in the last minute (%.0f %%)", Grouped(*p.Used),
			CountOf(int64(math.Round(p.PerMinute)), "permit"), 100*p.Share())
	case p.PerMinute == 0 && p.Rate != "":
		return "Unlimited rate: permits are not counted"
	}
	return ""
}

// PaceFacts returns how fast requests may go to the tenant, and what holds them. settings are those
// that a worker has announced, if one has.
func (t Tenant) PaceFacts(settings tenant.Announced, announced bool) []Fact {
	var all []Fact
	if t.Pace != nil {
		if until := t.Pace.PausedUntil; !until.IsZero() {
			all = append(all, Fact{Name: "paused", Text: "ends " + stamp.UTC(until)})
		}
		for _, b := range t.Pace.Blocks {
			text := fmt.Sprintf("%s: %s; next test request %s", b.Operation, ShownReason(b.Reason), stamp.UTC(b.NextProbe))
			all = append(all, Fact{Name: "blocked", Text: text})
		}
	}
	if !announced {
		return all
	}
	all = append(all,
		Fact{Name: "rate", Text: fmt.Sprintf("%s, burst %d", settings.Rate, settings.Burst)},
		Fact{Name: "reserve", Text: fmt.Sprintf("%g %% for other clients of the API", settings.Reserve)},
	)
	if !settings.UpdatedAt.IsZero() {
		all = append(all, Fact{Name: "settings from", Text: "a worker, " + stamp.UTC(settings.UpdatedAt)})
	}
	return all
}

// DNSFacts returns which servers give the proofs of a tenant's domains. settings are those that a
// worker has announced, if one has. resolvers and way are what a worker of the tenant sees of them
// and of the way to name servers; nil: not known.
func DNSFacts(settings tenant.Announced, announced bool, resolvers []dnscheck.ResolverState,
	way *dnscheck.Network) []Fact {
	if !announced {
		return nil
	}
	all := []Fact{{Name: "DNS mode", Text: Shown(settings.DNSMode)}}
	if way != nil {
		servers := Fact{Name: "name servers", Text: "not known"}
		switch problem := way.Problem(); {
		case problem != "":
			servers.Text = problem + ": " + ShownReason(way.Why)
		case way.Port53 != "":
			servers.Text = "reachable"
		}
		all = append(all, servers)
	}
	for _, r := range resolvers {
		all = append(all, Fact{Name: "resolver " + Shown(r.Name), Text: resolverText(r)})
	}
	if len(resolvers) == 0 {
		for _, address := range settings.Resolvers {
			all = append(all, Fact{Name: "resolver", Text: Shown(address)})
		}
	}
	if n := len(settings.Resolvers); n > 0 {
		text := fmt.Sprintf("%d of %d resolvers must agree", settings.ResolverQuorum, n)
		all = append(all, Fact{Name: "quorum", Text: text})
	}
	return facts(all...)
}

// resolverText describes the state of a resolver.
func resolverText(r dnscheck.ResolverState) string {
	text := fmt.Sprintf("operator %s, perspective %s", Shown(r.Operator), Shown(r.Perspective))
	if r.Silent != "" {
		text += "; silent: " + ShownReason(r.Silent)
	}
	if r.InTheClear {
		text += "; unencrypted"
	}
	if !r.AnsweredAt.IsZero() {
		text += "; last answer " + stamp.UTC(r.AnsweredAt)
	}
	return text
}

// SweepFacts returns when the tenant's domains are swept, and by which rules a domain is lost.
// settings are those that a worker has announced, if one has.
func (t Tenant) SweepFacts(settings tenant.Announced, announced bool, now time.Time) (all []Fact, err error) {
	if announced {
		cron, err := settings.Schedule()
		if err != nil {
			return nil, err
		}
		all = append(all, Fact{Name: "sweep schedule", Text: ScheduleText(cron, now)})
	}
	if t.Ticks != nil {
		all = append(all, Fact{Name: "sweep skipped", Text: SkippedTick(t.Ticks.Skipped)})
	}
	if t.Sweep != nil {
		all = append(all, Fact{Name: "last sweep", Text: t.Sweep.String()})
	}
	if announced {
		all = append(all, Fact{Name: "sweep rules", Text: RulesText(settings.Rules())})
	}
	return facts(all...), nil
}

// DiedText describes a worker that has died.
func DiedText(s ledger.Session) string {
	text := fmt.Sprintf("%s on %s, version %s: last seen at %s", s.ID, cmp.Or(Shown(s.Host), "an unknown host"),
		Shown(s.Version), stamp.UTC(s.SeenAt))
	if s.Busy > 0 {
		text += ", executing " + CountOf(int64(s.Busy), "task")
	}
	return text
}

// WorkerText describes a living worker.
func WorkerText(s ledger.Session, now time.Time) string {
	text := fmt.Sprintf("%s on %s, version %s: %s, %s of %s busy", s.ID, cmp.Or(Shown(s.Host), "an unknown host"),
		Shown(s.Version), CountOf(int64(len(s.Tenants)), "tenant"), Grouped(int64(s.Busy)), CountOf(int64(s.Places), "place"))
	if !s.Started.IsZero() {
		text += ", since " + stamp.UTC(s.Started)
	}
	text += fmt.Sprintf(", seen %s ago", Span(max(0, now.Sub(s.SeenAt))))
	if s.Refused {
		text += "; it refuses its changed file of tenants: see its log"
	}
	return text
}
