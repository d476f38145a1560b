package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"orgops/internal/actions"
	"orgops/internal/activity"
	"orgops/internal/cli"
	"orgops/internal/deliveries"
	"orgops/internal/ids"
	"orgops/internal/ledger"
	"orgops/internal/meters"
	"orgops/internal/stamp"
	"orgops/internal/status"
	"orgops/internal/tenant"
	"orgops/internal/terminal"
)

type oneTenant struct {
	Tenant string `arg:"" help:"Name of the tenant."`
}

type tenantShowCommand struct {
	Tenant string `arg:"" optional:"" help:"Name of the tenant (default: all tenants)."`
}

func (*tenantShowCommand) Help() string {
	return `Of all tenants, those that are held come first, then others that need attention, each with the reason and the remedy. A tenant that
is named is shown with its base URL, rate, last hour, resolvers, last sweep, workers, and its last activity.

Example:

    enqueue tenant show acme`
}

func (c *tenantShowCommand) Run(ctx context.Context, t *tool) error {
	if err := t.connectToRead(ctx, ifGiven(c.Tenant, ids.CheckTenant)); err != nil {
		return err
	}
	var settings tenant.Announced
	if c.Tenant != "" {
		var err error
		if settings, err = t.mustBeServed(ctx, c.Tenant); err != nil {
			return err
		}
	}
	sessions, noSessions := t.ledger.Sessions(ctx)
	names, noTenants := status.Tenants(ctx, t.ledger, sessions...)
	open, noRows := t.ledger.OpenByTenant(ctx)
	if err := cmp.Or(noSessions, noTenants, noRows); err != nil {
		return err
	}
	if c.Tenant != "" {
		names = []string{c.Tenant}
	}
	all, err := status.ReadTenants(ctx, t.redis, names, status.FleetOf(sessions))
	if err != nil {
		return err
	}
	slices.SortFunc(all, status.Tenant.Compare)
	if t.JSON {
		for _, one := range all {
			err = errors.Join(err, t.printTenantJSON(ctx, one, open[one.Name], settings, c.Tenant != ""))
		}
		return err
	}
	if c.Tenant == "" {
		fmt.Fprintln(t.Stdout, status.Summary(len(sessions), all)+".")
	}
	for _, one := range all {
		fmt.Fprintf(t.Stdout, "tenant %s: %s; %s\n", one.Name, one.State(), status.OpenText(open[one.Name]))
		for _, w := range one.Warnings() {
			fmt.Fprintf(t.Stdout, "  %s; %s\n", w.What, w.Fix)
		}
	}
	if c.Tenant == "" {
		return nil
	}
	return t.printDetails(ctx, all[0], settings, sessions)
}

// shownTenant is a tenant in JSON, with the facts that the text has.
type shownTenant struct {
	status.Tenant
	Text     string           `json:"state"`
	Open     int64            `json:"open_rows"`
	Paused   int64            `json:"open_rows_in_paused_runs,omitempty"`
	Warnings []status.Warning `json:"warnings,omitempty"` // the worst first
	// Permits and LastHour are those of a tenant that is named; nil: it is one of all.
	Permits  *status.Permits `json:"permits,omitempty"`
	LastHour *lastHour       `json:"last_hour,omitempty"`
}

// lastHour has the rows and requests of a tenant in the last hour.
type lastHour struct {
	Good     int64 `json:"rows_done_or_unchanged"`
	Failed   int64 `json:"rows_failed"`
	Answered int64 `json:"requests"`
	Refused  int64 `json:"requests_refused"` // with 429
}

func (h lastHour) String() string {
	return fmt.Sprintf("%d rows done or unchanged, %d failed; %d requests, and %d refused (429)", h.Good, h.Failed, h.Answered,
		h.Refused)
}

func (t *tool) readLastHour(ctx context.Context, name string) (h lastHour, err error) {
	hour, _, err := meters.Read(ctx, t.redis, name)
	for _, minute := range hour {
		h.Good += minute.Counts[meters.Good]
		h.Failed += minute.Counts[meters.Failed]
		h.Answered += minute.Counts[meters.Answered]
		h.Refused += minute.Counts[meters.Refused]
	}
	return h, err
}

// printTenantJSON prints a tenant as JSON. The settings are those of its workers if it is named.
func (t *tool) printTenantJSON(ctx context.Context, one status.Tenant, open ledger.OpenCounts,
	settings tenant.Announced, named bool) error {
	shown := shownTenant{Tenant: one, Text: one.State(), Open: open.Rows, Paused: open.Paused, Warnings: one.Warnings()}
	if !named {
		return t.printJSON(shown)
	}
	permits, noRate := one.Permits(settings)
	hour, noHour := t.readLastHour(ctx, one.Name)
	shown.Permits = &permits
	shown.LastHour = &hour
	return errors.Join(noRate, noHour, t.printJSON(shown))
}

// printDetails prints the details of a tenant, which its line does not have.
func (t *tool) printDetails(ctx context.Context, one status.Tenant, settings tenant.Announced,
	sessions []ledger.Session) error {
	permits, noRate := one.Permits(settings)
	hour, noHour := t.readLastHour(ctx, one.Name)
	table := terminal.NewTable(t.Stdout)
	if one.Identity != nil {
		table.Line("stands for", one.Identity.String())
	}
	table.Line("last hour", hour.String())
	table.Line("permits", permits.String())
	table.Facts(one.PaceFacts(settings, true))
	table.Facts(status.DNSFacts(settings, true, nil, nil))
	sweeps, noSchedule := one.SweepFacts(settings, true, time.Now())
	table.Facts(sweeps)
	for _, s := range sessions {
		if slices.Contains(s.Tenants, ledger.Tenant(one.Name)) {
			table.Line("worker", status.WorkerText(s, time.Now()))
		}
	}
	last, _, noActivity := activity.Page(ctx, t.redis, activity.Query{Tenants: []string{one.Name}, Limit: 10})
	for _, e := range last {
		table.Line("activity", strings.Join([]string{stamp.UTC(e.At), e.Who(), string(e.Action),
			status.Shown(strings.TrimSpace(e.Run + " " + e.Domain)), status.Whole(e.Result)}, " "))
	}
	return errors.Join(noRate, noHour, noSchedule, noActivity, table.Flush())
}

type stopCommand struct {
	oneTenant
	sure
	because
	By          string `noenv:"true" placeholder:"NAME" help:"Who stops the tenant (default: the user and machine that run this command)."`
	NoWorkerYet bool   `help:"Stop a tenant that no worker has served on this Redis yet."`
}

func (*stopCommand) Help() string {
	return `No PATCH, POST or DELETE is sent for the tenant until "enqueue tenant start". The command returns after 2 seconds, when every
worker has stopped and Redis has kept the stop. Rows stay open, no attempt is counted, and requests that only read are still sent: the
result of a request in progress is found out. A stop applies to all runs and sweeps. Webhook receivers are still notified.

A worker that cannot reach Redis does not learn of a stop. Stop that worker too. On a terminal the command asks first.

Example:

    enqueue tenant stop acme --reason "wrong file, ticket 4711"`
}

func (c *stopCommand) Run(ctx context.Context, t *tool) error {
	if err := t.connectTo(ctx, c.Tenant, c.NoWorkerYet); err != nil {
		return err
	}
	err := c.confirm(ctx, t, question{because: &c.because,
		text: fmt.Sprintf("Stop tenant %s: send no PATCH, POST or DELETE for it until it is started again", c.Tenant)})
	if err != nil {
		return err
	}
	stop, err := actions.StopTenant(ctx, t.author(cmp.Or(c.By, whoAmI())), c.Tenant, c.Reason)
	if err != nil {
		return err
	}
	return t.printTenant(ctx, c.Tenant, stop.String())
}

type startCommand struct{ oneTenant }

func (*startCommand) Help() string {
	return `Rows that waited are executed again within two minutes. The command also ends a pause that the API has asked for by a 429, which may
last up to an hour: one request tries at once, and the others follow if the API accepts it. It is the same for an operation that is
blocked because the platform refused it, such as for a wrong secret or a missing scope: start the tenant after you have corrected that.

Example:

    enqueue tenant start acme`
}

func (c *startCommand) Run(ctx context.Context, t *tool) error {
	if err := t.connectTo(ctx, c.Tenant, true); err != nil {
		return err
	}
	effect, err := actions.StartTenant(ctx, t.author(whoAmI()), c.Tenant)
	if err != nil {
		return err
	}
	return t.printTenant(ctx, c.Tenant, effect)
}

type deliverCommand struct {
	oneTenant
	Endpoint string `arg:"" help:"Name of the endpoint in the webhooks file."`
	GivenUp  bool   `noenv:"true" help:"Send the events that were given up, instead of those that wait for their next attempt."`
}

func (*deliverCommand) Help() string {
	return `Fix the receiver first. Its events wait up to four hours for their next attempt, and are given up after three days. An endpoint that
answered 410 gets events again. Workers spare a receiver that does not answer: it gets one event within two minutes, and the others after
it has accepted one.

Example:

    enqueue tenant deliver acme crm`
}

func (c *deliverCommand) Run(ctx context.Context, t *tool) error {
	if err := t.connectTo(ctx, c.Tenant, true); err != nil {
		return err
	}
	if err := t.mustBeKnown(ctx, c.Tenant); err != nil {
		return err
	}
	which := deliveries.Waiting
	if c.GivenUp {
		which = deliveries.GivenUp
	}
	effect, err := actions.Resend(ctx, t.author(whoAmI()), c.Tenant, c.Endpoint, which)
	if err != nil {
		return err
	}
	return t.printTenant(ctx, c.Tenant, effect)
}

type reassignCommand struct {
	oneTenant
	sure
	Keep bool   `noenv:"true" help:"It is the same tenant of the platform, whose address has changed or was wrong: keep its open rows, and what sweeps have found."`
	By   string `noenv:"true" placeholder:"NAME" help:"Who reassigns the tenant (default: the user and machine that run this command)."`
}

func (*reassignCommand) Help() string {
	return `The first worker of a tenant stores its base URL and audience in Redis. Workers with others do not serve the tenant. After this
command the worker that is started next decides what the name stands for.

The command refuses while a worker serves the tenant, and without --keep while a run of it is not finished. Without --keep, the next
worker removes what is known of the former tenant: watched domains, counted revocations, the last sweep, and names of domains. Runs that
have ended stay; do not retry them, since their rows are those of the former tenant. On a terminal the command asks first.

Example:

    enqueue tenant reassign acme --keep`
}

func (c *reassignCommand) Run(ctx context.Context, t *tool) error {
	if err := t.connectTo(ctx, c.Tenant, true); err != nil {
		return err
	}
	if _, err := t.mustBeServed(ctx, c.Tenant); err != nil {
		return err
	}
	q := question{text: fmt.Sprintf("Let the next worker decide which tenant %s is, and forget the former one's sweeps and names",
		c.Tenant)}
	if c.Keep {
		q.text = fmt.Sprintf("Let the next worker decide the address of tenant %s, and execute its rows there", c.Tenant)
	}
	if err := c.confirm(ctx, t, q); err != nil {
		return err
	}
	effect, err := actions.ReassignTenant(ctx, t.author(cmp.Or(c.By, whoAmI())), t.ledger, c.Tenant, c.Keep)
	if err != nil {
		return err
	}
	return t.printTenant(ctx, c.Tenant, effect)
}

// connectTo connects to the Redis of a tenant that a worker has served there, unless noWorkerYet.
func (t *tool) connectTo(ctx context.Context, name string, noWorkerYet bool) error {
	if err := ids.CheckTenant(name); err != nil {
		return cli.Usage(err)
	}
	if err := t.connect(ctx); err != nil {
		return err
	}
	_, err := t.served(ctx, name, noWorkerYet)
	return err
}

// served returns whether a worker has served the tenant. It is an error if none has, unless
// noWorkerYet: rows would wait for ever if the name of the tenant, or the URL of Redis, is a
// mistake.
func (t *tool) served(ctx context.Context, name string, noWorkerYet bool) (seen bool, err error) {
	_, seen, err = tenant.ReadAnnounced(ctx, t.redis, name)
	if err == nil && !seen && !noWorkerYet {
		err = t.unknownTenant(ctx, name, "; to go on before the first worker starts, add --no-worker-yet")
	}
	return seen, err
}

// mustBeServed returns the settings of the tenant's workers, for commands that need one.
func (t *tool) mustBeServed(ctx context.Context, name string) (tenant.Announced, error) {
	settings, seen, err := tenant.ReadAnnounced(ctx, t.redis, name)
	if err == nil && !seen {
		err = t.unknownTenant(ctx, name, "")
	}
	return settings, err
}

// mustBeKnown is an error for a tenant that does not exist: its name is probably mistyped.
func (t *tool) mustBeKnown(ctx context.Context, name string) error {
	err := status.CheckExists(ctx, t.redis, name)
	if none, ok := errors.AsType[*status.NoTenantError](err); ok {
		return t.unknownTenant(ctx, none.Name, "")
	}
	return err
}

// connectToSubmitTo connects to submit rows of a tenant. It returns as seen whether a worker has
// served the tenant.
func (t *tool) connectToSubmitTo(ctx context.Context, name string, noWorkerYet bool) (seen bool, err error) {
	if err := t.connectToSubmit(ctx); err != nil {
		return false, err
	}
	return t.served(ctx, name, noWorkerYet)
}

// settingsTime bounds the read of a tenant's settings if Redis is optional.
const settingsTime = 3 * time.Second

// announced returns the settings that the tenant's workers announced, for commands for which
// Redis is optional.
func (t *tool) announced(ctx context.Context, name string) (settings tenant.Announced, announced bool, err error) {
	if err := t.openRedis(); err != nil {
		return tenant.Announced{}, false, err
	}
	ctx, cancel := context.WithTimeout(ctx, settingsTime)
	defer cancel()
	return tenant.ReadAnnounced(ctx, t.redis, name)
}

// printTenant prints the effect on the tenant, or with --json its state.
func (t *tool) printTenant(ctx context.Context, name, effect string) error {
	if t.JSON {
		fleet, err := status.ReadFleet(ctx, t.ledger)
		if err != nil {
			return err
		}
		state, err := status.ReadDetails(ctx, t.redis, name, fleet)
		if err != nil {
			return err
		}
		return t.printJSON(state)
	}
	_, err := fmt.Fprintf(t.Stdout, "tenant %s: %s\n", name, effect)
	return err
}
