package surface

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"orgops/apiclient"
	"orgops/apiclient/schema"
	"orgops/dnscheck"
	"orgops/dnscheck/report"
	"orgops/internal/actions"
	"orgops/internal/cli"
	"orgops/internal/engine"
	"orgops/internal/intake"
	"orgops/internal/ledger"
	"orgops/internal/ledgertest"
	"orgops/internal/meters"
	"orgops/internal/scan/progress"
	"orgops/internal/status"
	"orgops/internal/sweep"
	"orgops/internal/tenant"
	"orgops/producer"
	"orgops/tasks"
	"orgops/tasks/handlers"
)

// The workers. The one of the tenant unserved has gone.
const (
	workerOne = ledger.SessionID("worker0000000001")
	workerTwo = ledger.SessionID("worker0000000002")
)

// Acme is the tenant with all that a tenant can have.
const Acme = "acme"

// November returns a time of November 2026, in UTC.
func November(day, hour, minute int) time.Time {
	return time.Date(2026, 11, day, hour, minute, 0, 0, time.UTC)
}

// tell is the story of the world, from the start of its virtual time to [Now].
func tell(t *testing.T, m *Moment) {
	until(November(1, 8, 0))
	must(t, m.Ledger.CheckSchema(t.Context()))
	acme := newSite(t, m, tenant.Announced{
		Tenant: Acme, Rate: "16/s", Burst: 50, Reserve: 20, SweepShare: 20, MaxClientsPerRequest: 50,
		GiveUp: cli.Duration(72 * time.Hour),
		Sweep:  "0 3 * * 2,5", Grace: cli.Duration(96 * time.Hour), AbsentChecks: 3, Protect: []string{"protected.example"},
		Resolvers: []string{"https://one.example/dns-query", "https://two.example/dns-query",
			"https://three.example/dns-query"}, ResolverQuorum: 2, DNSMode: dnscheck.ModeAuthority.String(),
	}, workerOne)
	hooks := acme.deliverTo(receivers{
		"crm": nil,
		"desk": {Status: http.StatusServiceUnavailable, RetryAfter: 4 * time.Hour,
			Reason: "it answered 503 Service Unavailable"},
		"gone": {Status: http.StatusGone, Permanent: true, Reason: "it answered 410 Gone"},
	})
	addDomains(acme)

	// In the order of time, which never goes back.
	october(acme)
	sweeps(acme)
	acme.deliver(hooks)
	today(t, acme)
	for minute := 45; minute < 57; minute++ {
		until(November(20, 11, minute))
		crowd(t, m)
	}
	stuck(t, acme)
	crowd(t, m)
	tenants(t, m)
	until(Now.Add(-15 * time.Second))
	meter(t, m)
	recordObstacles(t, acme)
	inProgress(t, acme)

	until(Now)
	acme.announce()
	keepWorkers(t, m)
}

// keepWorkers renews the sessions of the workers.
func keepWorkers(t *testing.T, m *Moment) {
	for id, s := range map[ledger.SessionID]ledger.Session{
		workerOne: {Host: "one", Busy: 1,
			Tenants: []ledger.Tenant{Acme, "blocked", "crowded", "limited", "stopped", "tokenless"}},
		workerTwo: {Host: "two", Tenants: []ledger.Tenant{Acme, "quiet"}},
	} {
		s.ID = id
		s.Protocol = engine.Protocol
		s.Version = "v1.0.0"
		s.Started = November(15, 6, 0)
		s.Places = 398
		for _, kind := range tasks.All() {
			s.Kinds = append(s.Kinds, ledger.Kind(kind.Name))
		}
		_, err := m.Ledger.Renew(t.Context(), s)
		must(t, err)
	}
}

// The answers of DNS.
var (
	present = answer{state: dnscheck.Present, reason: dnscheck.ReasonFound}
	missing = answer{state: dnscheck.Absent, reason: dnscheck.ReasonNoName}
	silent  = answer{state: dnscheck.Unknown, reason: dnscheck.ReasonTimeout}
)

// mistaken is the answer of a domain whose owner has made a mistake: at the host there are the
// values, and the diagnosis finds found at a name, "" is the host.
func mistaken(name string, m report.Mistake, found, at string, values ...string) answer {
	host := "_ss-verification.org_shop." + name
	if at == "" {
		at = host
	}
	a := answer{state: dnscheck.Absent, reason: dnscheck.ReasonNoName, values: values,
		finding: &report.Finding{Mistake: m, Host: at, Found: found}}
	a.finding.Sentence = a.finding.Advice(host)
	if len(values) > 0 {
		a.reason = dnscheck.ReasonOtherValue
	}
	return a
}

// addDomains adds the domains of acme: those of an organization that has just begun, of one whose
// domains are swept, and of one with pending domains that a scan finds.
func addDomains(s *site) {
	// The name servers disagree about one domain. The record of another one has not reached the
	// resolvers: a check finds it, and the proof does not.
	disagreeing := answer{state: dnscheck.Unknown, reason: dnscheck.ReasonServersDisagree, servers: []dnscheck.Observation{
		{Resolver: "ns1." + operator, Authority: true, Address: "192.0.2.1:53", Transport: "udp", State: dnscheck.Present,
			Reason: dnscheck.ReasonFound, RCode: "NOERROR", Took: took},
		{Resolver: "ns2." + operator, Authority: true, Address: "192.0.2.2:53", Transport: "udp", State: dnscheck.Absent,
			Reason: dnscheck.ReasonNoName, RCode: "NXDOMAIN", Took: took},
	}}
	lagging := present
	lagging.proof = &answer{state: dnscheck.Unknown, reason: dnscheck.ReasonLag}

	// The first organization has one domain for each result of a verification: the state of the
	// record, an error of the platform, and the mistakes that a diagnosis finds.
	for name, a := range ordered(
		"proven.example", present,
		"verified.example", present,
		"missing.example", missing,
		"silent.example", silent,
		"disagreeing.example", disagreeing,
		"lagging.example", lagging,
		"claimed.example", present,
		"unavailable.example", present,
		"apex.example", mistaken("apex.example", report.MistakeApex, "", "apex.example"),
		"doubled.example", mistaken("doubled.example", report.MistakeDoubled, "",
			"_ss-verification.org_shop.doubled.example.doubled.example"),
		"quoted.example", mistaken("quoted.example", report.MistakeQuoted, `"\"`+token("quoted.example")+`\""`, "",
			`"`+token("quoted.example")+`"`),
		"cut.example", mistaken("cut.example", report.MistakeCut, `"`+token("cut.example")[:12]+`"`, "",
			token("cut.example")[:12]),
		"alias.example", mistaken("alias.example", report.MistakeAlias, "shops.example", ""),
		"other.example", mistaken("other.example", report.MistakeOther, `"`+token("before")+`"`, "", token("before")),
	) {
		s.add("org_shop", name, schema.StatusPending, always(a))
	}
	s.named("verified.example").Status = schema.StatusVerified
	s.named("unavailable.example").fails = &apiclient.Error{
		Operation: schema.OpGetDiscoveryDomain, Method: http.MethodGet, Path: "/organizations/org_shop/discovery-domains/ord_08",
		Status: http.StatusServiceUnavailable, Title: "Service Unavailable", RetryAfter: time.Hour,
	}

	// The domains of the second organization were verified before. Sweeps see their records vanish,
	// return or fail to answer, on such days that each domain ends in a state of its own.
	// One record was moved to a wrong name.
	fromDay := func(day int, a answer) phase { return phase{November(day, 0, 0), a} }
	moved := mistaken("protected.example", report.MistakeApex, "", "protected.example")
	for name, phases := range ordered(
		"steady.example", []phase{always(present)},
		"fading.example", []phase{always(present), fromDay(20, missing)},
		"lost.example", []phase{always(present), fromDay(9, missing)},
		"protected.example", []phase{always(present), fromDay(9, moved)},
		"revoked.example", []phase{always(present), fromDay(7, missing)},
		"returned.example", []phase{always(present), fromDay(8, missing), fromDay(19, present)},
		"unproven.example", []phase{always(missing)},
		"unknown.example", []phase{always(present), fromDay(16, silent)},
	) {
		s.add("org_swept", name, schema.StatusVerified, phases...)
	}

	// A scan finds the pending domains of an organization. The last two are those of the run of
	// October.
	s.add("org_pending", "first.example", schema.StatusPending, always(present))
	s.add("org_pending", "second.example", schema.StatusPending, always(missing))
	s.add("org_october", "october.example", schema.StatusPending, always(present))
	s.add("org_october", "late.example", schema.StatusPending, always(missing))
}

// named returns the domain of a name.
func (p *platform) named(name string) *domain {
	for _, d := range p.domains {
		if d.Domain == name {
			return d
		}
	}
	panic("there is no domain " + name)
}

// ordered yields pairs of a name and a value in their order.
func ordered[T any](first string, value T, more ...any) func(yield func(string, T) bool) {
	return func(yield func(string, T) bool) {
		if !yield(first, value) {
			return
		}
		for i := 0; i < len(more); i += 2 {
			if !yield(more[i].(string), more[i+1].(T)) {
				return
			}
		}
	}
}

// rowsOf returns rows of these domains as CSV.
func (p *platform) rowsOf(names ...string) string {
	var rows strings.Builder
	rows.WriteString("organization_id,discovery_domain_id,domain\n")
	for _, name := range names {
		d := p.named(name)
		fmt.Fprintf(&rows, "%s,%s,%s\n", d.organization, d.ID, d.Domain)
	}
	return rows.String()
}

func labelled(label string) func(*ledger.NewRun) { return func(r *ledger.NewRun) { r.Label = label } }

// october is a run that has ended with failures, and was retried; and runs of the other kinds.
func october(s *site) {
	until(November(2, 9, 0))
	s.submit("october", tasks.TypeVerify, s.rowsOf("october.example", "late.example", "october.example")+
		"org_october,ord_99,deleted.example\norg_october,not an id,bad.example\n", labelled("invoice 4711"))
	s.work()
	until(November(5, 10, 0)) // more than 72 hours later
	s.work()

	for _, id := range []string{"cli_1", "cli_2", "cli_3", "cli_5"} {
		s.clients[id] = "org_shop"
	}
	s.submit("removals", tasks.TypeRemove,
		"organization_id,client_id\norg_shop,cli_1\norg_shop,cli_2\norg_shop,cli_3\norg_shop,cli_4\n")
	s.work()
	const template = `{"name":%q,"type":"mdl","dialect":"simplified/1.0","presentation":{"org.iso.18013.5.1.mDL":` +
		`{"org.iso.18013.5.1":{"portrait":true}}},"well_known_trusted_issuers":"aamva"}` + "\n"
	s.submit("templates", tasks.TypeCreate, fmt.Sprintf(template, "licence")+fmt.Sprintf(template, "licence 2"))
	s.work()
	s.submit("updates", tasks.TypeUpdate, "organization_id,discovery_domain_id,status\norg_pending,"+s.named("second.example").ID+",pending\n")
	s.work()

	until(November(5, 11, 0))
	from := ledgertest.Find(s.t, s.m.Ledger, "october")
	seed(s.t, "october-again")
	_, err := s.intake().Retry(s.t.Context(), from, intake.RetryOptions{ID: "october-again"})
	must(s.t, err)
	s.work()
}

// sweeps are those of the schedule. The second half of them finds lost domains, of which one is
// revoked.
func sweeps(s *site) {
	for _, day := range []int{6, 10, 13, 17, 20} {
		if day == 10 { // the retried rows are given up before
			until(November(8, 12, 0))
			s.work()
		}
		until(November(day, 3, 0))
		s.sweep(day)
		if day == 17 {
			until(November(18, 9, 30))
			s.revoke("revocation", sweep.SetPending, "revoked.example")
			s.work()
		}
	}
}

// sweep starts a sweep and has it executed.
func (s *site) sweep(day int) {
	s.t.Helper()
	id := fmt.Sprintf("sweep-%s-%d", s.name, November(day, 3, 0).Unix())
	seed(s.t, id)
	i := s.intake()
	i.By = s.author("schedule")
	_, _, err := i.BeginSweep(s.t.Context(), ledger.NewRun{ID: ledger.RunID(id), Tenant: s.name},
		progress.Scan{Tick: November(day, 3, 0).Unix()})
	must(s.t, err)
	s.work()
}

// revoke submits a run that revokes domains, as the command does.
func (s *site) revoke(id string, set sweep.Setting, names ...string) {
	s.t.Helper()
	seed(s.t, id)
	var rows [][]byte
	for _, name := range names {
		d := s.named(name)
		row, err := json.Marshal(sweep.RevokeRow{OrganizationID: d.organization, DiscoveryDomainID: d.ID, Set: set, Max: 20})
		must(s.t, err)
		rows = append(rows, row)
	}
	_, err := s.intake().SubmitChosen(s.t.Context(),
		ledger.NewRun{ID: ledger.RunID(id), Tenant: s.name, Kind: handlers.Revoke}, rows)
	must(s.t, err)
}

// today are the runs of today: one for each state.
func today(t *testing.T, s *site) {
	// A file with all domains of the organization shows each result of a verification.
	ctx := t.Context()
	until(November(20, 11, 20))
	s.submit("domains", tasks.TypeVerify, "organization_id,discovery_domain_id,domain,verification_txt\n"+
		claimed(s, "claimed.example")+plain(s, "proven.example", "verified.example", "missing.example", "silent.example",
		"disagreeing.example", "lagging.example", "unavailable.example", "apex.example", "doubled.example", "quoted.example",
		"cut.example", "alias.example", "other.example"), labelled("domains of the shops"))
	s.work()
	until(November(20, 11, 21)) // a record that differs is read twice
	s.work()

	// A program submits one row by the package producer, and a scan of an organization begins a run.
	seed(t, "signup-4711")
	_, err := producer.New(s.m.Redis).Submit(ctx, producer.Row{
		ID: "signup-4711", Tenant: Acme, Kind: producer.Verify, Label: "sign-up 4711",
		Row: json.RawMessage(`{"organization_id":"org_pending","domain":"second.example"}`),
	})
	must(t, err)
	s.work()
	seed(t, "pending")
	_, _, err = s.intake().BeginPending(ctx, "org_pending", ledger.NewRun{ID: "pending", Tenant: s.name})
	must(t, err)
	s.work()

	// A caller of the intake has a run that waits for records, and one that has ended.
	fromShop := func(r *ledger.NewRun) { r.Caller = "shop" }
	s.submit("intake", tasks.TypeVerify, s.rowsOf("missing.example", "quoted.example"), fromShop)
	s.submit("intake-ended", tasks.TypeRemove, "organization_id,client_id\norg_shop,cli_5\norg_shop,cli_6\n", fromShop)
	s.work()

	// The rows of the last runs are not executed: each run stays in the state before, from the scan to
	// the cancelled one, which is finished, and the staged one, whose rows have not been committed.
	until(November(20, 11, 30))
	seed(t, "scanning")
	_, _, err = s.intake().BeginPending(ctx, "", ledger.NewRun{ID: "scanning", Tenant: s.name})
	must(t, err)
	rows := s.rowsOf("missing.example", "silent.example")
	s.submit("queued", tasks.TypeVerify, rows, labelled("not begun"))
	s.submit("tomorrow", tasks.TypeVerify, rows, func(r *ledger.NewRun) { r.NotBefore = November(21, 2, 0) })
	for _, id := range []string{"paused", "cancelled"} {
		s.submit(id, tasks.TypeVerify, rows)
		run := ledgertest.Find(t, s.m.Ledger, id)
		change := actions.Pause
		if id == "cancelled" {
			change = actions.Cancel
		}
		_, err := change(ctx, s.author(ada), s.m.Ledger, run)
		must(t, err)
	}
	s.finish("cancelled")
	seed(t, "staged")
	ledgertest.Create(t, s.m.Ledger, ledger.NewRun{ID: "staged", Tenant: s.name})
}

// claimed returns a row of a domain with the token of another one.
func claimed(s *site, name string) string {
	d := s.named(name)
	return fmt.Sprintf("%s,%s,%s,%s\n", d.organization, d.ID, d.Domain, token("another"))
}

// plain returns rows of domains without their tokens.
func plain(s *site, names ...string) string {
	var rows strings.Builder
	for _, name := range names {
		d := s.named(name)
		fmt.Fprintf(&rows, "%s,%s,%s,\n", d.organization, d.ID, d.Domain)
	}
	return rows.String()
}

// crowd has the API refuse most of the requests that a tenant sends in this minute: another client
// uses its limit.
func crowd(t *testing.T, m *Moment) {
	all := meters.New()
	for i := range 8 {
		code := http.StatusTooManyRequests
		if i < 2 {
			code = http.StatusOK
		}
		all.Request("crowded", code)
	}
	for range 7 {
		all.Requested("crowded", "crowded-run")
	}
	all.Requested("crowded", "signup-1")
	must(t, all.Flush(t.Context(), m.Redis))
}

// stuck is a run of which Redis has lost a segment, which its dispatcher notes again and again.
func stuck(t *testing.T, s *site) {
	until(Now.Add(-3 * time.Minute))
	s.submit("stuck", tasks.TypeVerify, s.rowsOf("missing.example", "silent.example"))
	for range 2 {
		must(t, s.m.Ledger.NoteStuck(t.Context(), ledgertest.Find(t, s.m.Ledger, "stuck"), "segment 0 of its rows is missing in Redis: restore "+
			"Redis from a backup, or cancel the run and submit its rows that have no result again"))
		until(Now.Add(-2 * time.Minute))
	}
}

// tenants are the others: each is in the state of its name, with a run.
func tenants(t *testing.T, m *Moment) {
	ctx := t.Context()
	until(Now.Add(-25 * time.Second)) // a block ends if nobody sends a test request
	for _, name := range []string{"blocked", "crowded", "limited", "quiet", "stopped", "tokenless", "unserved"} {
		s := newSite(t, m, tenant.Announced{Tenant: name, Rate: "2/s", Burst: 2, Reserve: 20,
			GiveUp: cli.Duration(72 * time.Hour), MaxClientsPerRequest: 100}, workerOne)
		s.add("org_1", name+".example", schema.StatusPending, always(present))
		if name == "quiet" {
			continue
		}
		s.submit(name+"-run", tasks.TypeVerify, s.rowsOf(name+".example"))
		switch name {
		case "blocked":
			s.fails = &apiclient.Error{Operation: schema.OpGetDiscoveryDomain, Method: http.MethodGet,
				Path: "/organizations/org_1/discovery-domains/ord_01", Status: http.StatusForbidden, Title: "Forbidden",
				Message: "Insufficient scope, expected any of: read:organization_discovery_domains", Code: "insufficient_scope"}
			s.work()
		case "tokenless":
			s.fails = &apiclient.TokenError{Status: http.StatusUnauthorized, Code: "access_denied", Description: "Unauthorized"}
			s.work()
		case "limited":
			s.limiter.Answered(ctx, schema.OpGetDiscoveryDomain, http.StatusTooManyRequests, nil, 30*time.Minute)
		case "stopped":
			_, err := actions.StopTenant(ctx, s.author(ada), name, "wrong file, ticket 4711")
			must(t, err)
		}
	}
}

// meter stores the numbers of the last minutes.
func meter(t *testing.T, m *Moment) {
	all := meters.New()
	all.Add(Acme, meters.Allowed, 960)
	all.Add(Acme, meters.Good, 120)
	all.Add(Acme, meters.Failed, 3)
	all.Add(Acme, meters.Absent, 7)
	for range 5 {
		all.Request(Acme, http.StatusOK)
	}
	all.Request(Acme, http.StatusTooManyRequests)
	must(t, all.Flush(t.Context(), m.Redis))
}

// recordObstacles has the worker of acme and crowded record their obstacles.
func recordObstacles(t *testing.T, acme *site) {
	for _, name := range []string{Acme, "crowded"} {
		one, err := status.ReadDetails(t.Context(), acme.m.Redis, name, nil)
		must(t, err)
		must(t, actions.RecordObstacles(t.Context(), acme.author("worker"), one))
	}
}

// inProgress is a run of which a worker executes a row.
func inProgress(t *testing.T, s *site) {
	s.submit("executing", tasks.TypeVerify, s.rowsOf("missing.example", "silent.example"))
	seed(t, "executing")
	ledgertest.BeginBy(t, s.m.Ledger, workerOne, "executing", 1)
}
