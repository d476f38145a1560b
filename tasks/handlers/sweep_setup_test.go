package handlers_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"orgops/apiclient"
	"orgops/apiclient/schema"
	"orgops/dnscheck"
	"orgops/dnscheck/report"
	"orgops/internal/activity"
	"orgops/internal/engine"
	"orgops/internal/events"
	"orgops/internal/evidence"
	"orgops/internal/ledger"
	"orgops/internal/pace"
	"orgops/internal/sandbox"
	"orgops/internal/scan/progress"
	"orgops/internal/sweep"
	"orgops/tasks"
	"orgops/tasks/handlers"
)

// sweepSite is a verifySite whose domain is swept. Each run has one row.
type sweepSite struct {
	*verifySite
	store   *sweep.Store
	states  *sweep.States // of the test
	rules   sweep.Rules
	prove   bool
	set     sweep.Setting
	max     int64            // revocations
	places  *handlers.Places // of revocations
	keep    bool             // proofs of domains that no sweep has found
	servers bool             // a disproof needs name servers, and the sandbox has none
	log     strings.Builder
	runs    int
	// asked are the runs that handlers have submitted and that were not executed yet. known
	// are the IDs of all.
	asked []handlers.OneRow
	last  ledger.Result // of these
	known map[ledger.RunID]bool
	by    activity.Author // zero: records nothing
	// frozen says that an execution continues whose row another one has settled.
	frozen bool
}

func newSweepSite(t *testing.T, set sweep.Setting, change ...func(*sandbox.Options)) *sweepSite {
	t.Helper()
	change = append([]func(*sandbox.Options){func(o *sandbox.Options) { o.FlagDefault = sandbox.FlagTrue }}, change...)
	s := &sweepSite{verifySite: newVerifySite(t, change...), set: set, max: 20, known: map[ledger.RunID]bool{}}
	s.store = sweep.NewStore(s.Redis, string(tenant))
	s.states = &sweep.States{Tenant: string(tenant), Store: clockedStore{s.store, s.clock}, Notifier: s}
	s.config.Logger = slog.New(slog.NewJSONHandler(&s.log, nil))
	s.handlers = s.sweepHandlers
	return s
}

// clockedStore is a store on a clock.
type clockedStore struct {
	*sweep.Store
	clock *clock
}

func (s clockedStore) Clock(context.Context) (time.Time, error) { return s.clock.now(), nil }

// steppedStore is a store of which each call of a handler is a step.
type steppedStore struct {
	sweep.StateStore
	step func(name string, call func())
}

func (p steppedStore) Domain(ctx context.Context, id string) (value []byte, err error) {
	p.step("read state", func() { value, err = p.StateStore.Domain(ctx, id) })
	return value, err
}

func (p steppedStore) SetDomain(ctx context.Context, w sweep.DomainWrite) (ok bool, err error) {
	p.step("write state", func() { ok, err = p.StateStore.SetDomain(ctx, w) })
	return ok, err
}

// Notify implements [events.Notifier].
func (s *sweepSite) Notify(_ context.Context, e events.Event) error {
	s.events = append(s.events, notified{Event: e})
	return nil
}

// sweepHandlers returns the handlers of a worker.
func (s *sweepSite) sweepHandlers(cfg handlers.VerifyConfig) map[ledger.Kind]engine.Handler {
	states := &sweep.States{Tenant: string(tenant), Store: steppedStore{s.states.Store, s.around}, Notifier: s,
		Keep: s.keep}
	cfg.Notify = handlers.NotifyStates(states, s.by)
	cfg.Notice = states.NoticeRead
	dns := &shown{sweepDNS: s.checked()}
	cfg.DNS = dns
	api := cfg.API
	cfg.API = func(b apiclient.Binding) handlers.Domains { return guarded{api(b), s, dns.mayVerify} }
	revoke := func(b apiclient.Binding) handlers.Domains { return guarded{api(b), s, dns.mayRevoke} }
	submit := func(_ context.Context, run handlers.OneRow) error {
		s.around("submit", func() {
			if !s.known[run.ID] {
				s.known[run.ID], s.asked = true, append(s.asked, run)
			}
		})
		return run.ID.Validate()
	}
	return map[ledger.Kind]engine.Handler{
		handlers.Verify: handlers.NewVerify(cfg),
		handlers.Read:   handlers.NewRead(cfg),
		handlers.Update: handlers.NewUpdate(handlers.UpdateConfig{API: cfg.API, States: states,
			RequestTimeout: cfg.RequestTimeout}),
		handlers.Create: handlers.NewCreate(handlers.CreateConfig{
			API:            func(b apiclient.Binding) handlers.Templates { return steppedTemplates{s.api.For(b), s.around} },
			RequestTimeout: cfg.RequestTimeout}),
		handlers.Remove: handlers.NewRemove(handlers.RemoveConfig{
			API:   func(b apiclient.Binding) handlers.Clients { return steppedClients{s.api.For(b), s.around} },
			Limit: pace.NewClientLimit(s.Redis, string(tenant))}),
		handlers.Recheck: handlers.NewRecheck(handlers.RecheckConfig{Verify: cfg, Tenant: tenant, States: states,
			Rules: s.rules, Operators: dns, Submit: submit}),
		handlers.Revoke: handlers.NewRevoke(handlers.RevokeConfig{
			API: revoke, DNS: dns, States: states, Rules: s.rules, Places: s.places, NoServers: !s.servers,
			RequestTimeout: cfg.RequestTimeout, Logger: cfg.Logger, By: s.by,
		}),
	}
}

// shown is the DNS of a worker, with what it has shown of the domain's token so far.
type shown struct {
	sweepDNS
	present, absent bool
}

func (d *shown) Prove(ctx context.Context, host, token string) (dnscheck.Verdict, error) {
	v, err := d.sweepDNS.Prove(ctx, host, token)
	_, ok := v.Proof()
	d.present = d.present || ok
	return v, err
}

func (d *shown) Disprove(ctx context.Context, host, token string) (dnscheck.Verdict, error) {
	v, err := d.sweepDNS.Disprove(ctx, host, token)
	d.absent = d.absent || v.State == dnscheck.Absent
	return v, err
}

// mayVerify permits the PATCHes of rows that prove domains.
func (d *shown) mayVerify(u schema.DiscoveryDomainUpdate) bool {
	return u.Status == nil || *u.Status != schema.StatusVerified || d.present
}

// mayRevoke permits the PATCHes of rows that revoke domains, or route them again.
func (d *shown) mayRevoke(u schema.DiscoveryDomainUpdate) bool {
	if u.Status == nil && *u.UseForOrganizationDiscovery {
		return d.present
	}
	return d.absent
}

// guarded are domains of which a worker sends a PATCH only after its DNS permits it.
type guarded struct {
	handlers.Domains
	s        *sweepSite
	isProven func(schema.DiscoveryDomainUpdate) bool
}

func (g guarded) UpdateDiscoveryDomain(ctx context.Context, organization, domain string,
	u schema.DiscoveryDomainUpdate, intent apiclient.Intent) (schema.DiscoveryDomain, error) {
	if !g.isProven(u) {
		g.s.t.Errorf("a PATCH of a domain that this execution has not proven: %+v", u)
	}
	return g.Domains.UpdateDiscoveryDomain(ctx, organization, domain, u, intent)
}

// sweepDNS is the part of a checker that the kinds of sweeps need.
type sweepDNS interface {
	handlers.DNS
	handlers.RevokeDNS
	handlers.Operators
}

func (s *sweepSite) checked() sweepDNS {
	s.t.Helper()
	dns, ok := s.config.DNS.(sweepDNS)
	if !ok {
		s.t.Fatalf("%T is no DNS of sweeps", s.config.DNS)
	}
	return dns
}

// open submits one row as a run, which is the site's from then on.
func (s *sweepSite) open(id ledger.RunID, kind ledger.Kind, row any) {
	s.t.Helper()
	content, ok := row.([]byte)
	if !ok {
		var err error
		if content, err = json.Marshal(row); err != nil {
			s.t.Fatal(err)
		}
	}
	if id == "" {
		s.runs++
		id = ledger.RunID(fmt.Sprintf("run%d", s.runs))
	}
	s.SubmitAs(id, kind, string(content))
	s.Run.CreatedAt = s.Run.CreatedAt.Add(s.clock.ahead())
	s.timed.open, s.timed.after, s.timed.first, s.timed.intent = false, 0, 0, 0
	s.began = s.clock.now()
}

// rowOf returns the sweep's row of the domain in its present state.
func (s *sweepSite) rowOf() tasks.RecheckRow {
	d, _ := s.sandbox.Domain(org, dom)
	return tasks.RecheckRow{
		OrganizationID: org, DiscoveryDomainID: d.ID,
		ScannedRecord: tasks.ScannedRecord{Domain: d.Domain, VerificationHost: d.Host, VerificationTXT: d.TXT,
			Status: schema.DomainStatus(d.Status), UseForOrganizationDiscovery: d.Use},
		Prove: s.prove, Tick: s.clock.now().Unix(),
	}
}

// scan submits the row of a sweep of now.
func (s *sweepSite) scan() (row tasks.RecheckRow) {
	s.t.Helper()
	row = s.rowOf()
	s.open("", handlers.Recheck, row)
	return row
}

// sweep checks the domain, and executes the rows that this submits. It returns the result of the
// check.
func (s *sweepSite) sweep() (r ledger.Result) {
	s.t.Helper()
	tick := s.clock.now().Unix()
	if _, ok := s.sandbox.Domain(org, dom); ok {
		tick = s.scan().Tick
		r = s.settle()
	}
	s.conclude(tick)
	s.acted()
	return r
}

// conclude ends a sweep of the tenant.
func (s *sweepSite) conclude(tick int64) {
	s.t.Helper()
	if err := s.states.Conclude(s.t.Context(), "sweep", progress.Scan{Tick: tick, Read: 1, Ended: true}); err != nil {
		s.t.Fatal(err)
	}
}

// acted executes the submitted runs.
func (s *sweepSite) acted() {
	s.t.Helper()
	for len(s.asked) > 0 {
		s.begin()
		s.last = s.settle()
	}
}

// begin submits the first of the runs in asked to the ledger.
func (s *sweepSite) begin() {
	s.t.Helper()
	next := s.asked[0]
	s.asked = s.asked[1:]
	s.open(next.ID, next.Kind, next.Content)
}

// days sweeps once a day.
func (s *sweepSite) days(n int) {
	s.t.Helper()
	for range n {
		s.sweep()
		s.clock.advance(24 * time.Hour)
	}
}

// domainState returns the stored state of the domain.
func (s *sweepSite) domainState() sweep.DomainState {
	s.t.Helper()
	state, _, err := s.states.Read(s.t.Context(), dom)
	if err != nil {
		s.t.Fatal(err)
	}
	return state
}

// alter changes the stored state of the domain.
func (s *sweepSite) alter(change func(*sweep.DomainState)) {
	s.t.Helper()
	if _, err := s.states.Change(s.t.Context(), dom, change); err != nil {
		s.t.Fatal(err)
	}
}

// age has that many sweeps find the token absent before now.
func (s *sweepSite) age(d time.Duration, sweeps int) {
	s.t.Helper()
	s.alter(func(m *sweep.DomainState) {
		m.Absence.Since, m.Absence.Checks = m.Absence.Since.Add(-d), m.Absence.Checks+sweeps
		m.Absence.Tick -= int64(d.Seconds())
	})
}

// due makes a verified domain whose token is absent and that the next sweep finds lost.
func (s *sweepSite) due(use *bool) sandbox.Domain {
	s.t.Helper()
	d := s.verified(use)
	s.missed()
	s.clock.advance(24 * time.Hour)
	s.age(7*24*time.Hour, 6)
	return d
}

// missed stores that a sweep of now has not found the token, as a row of kind Recheck does. It
// returns the sweep's tick.
func (s *sweepSite) missed() (tick int64) {
	s.t.Helper()
	row := s.rowOf()
	state, raw, err := s.states.Read(s.t.Context(), dom)
	if err != nil {
		s.t.Fatal(err)
	}
	verdict, err := s.checked().Check(s.t.Context(), row.VerificationHost, row.VerificationTXT)
	if err == nil {
		_, err = s.states.Observe(s.t.Context(), sweep.Observation{
			Domain: row.Record(), Tick: row.Tick, Verdict: verdict, Operator: verdict.Operator, At: s.clock.now(),
		}, s.rules, state, raw)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return row.Tick
}

// decided makes a lost domain, and submits the row that revokes it.
func (s *sweepSite) decided(use *bool) sandbox.Domain {
	s.t.Helper()
	d := s.due(use)
	s.conclude(s.missed())
	s.open("", handlers.Revoke, s.revocation())
	return d
}

// revocation returns the row that revokes the domain.
func (s *sweepSite) revocation() sweep.RevokeRow {
	return sweep.RevokeRow{OrganizationID: org, DiscoveryDomainID: dom, Set: s.set, Max: s.max}
}

// revoked makes a domain that was revoked an hour before.
func (s *sweepSite) revoked(use *bool) sandbox.Domain {
	s.t.Helper()
	d := s.decided(use)
	s.wantRow(s.settle(), ledger.Done)
	s.clock.advance(time.Hour)
	if s.domainState().Revoked == nil {
		s.t.Fatalf("nothing is revoked: %+v", s.domainState())
	}
	return d
}

// verified makes a verified domain whose token is absent, and was proven a day before.
func (s *sweepSite) verified(use *bool) sandbox.Domain {
	s.t.Helper()
	d := s.foreign(use)
	s.alter(func(m *sweep.DomainState) {
		m.V, m.OrganizationID, m.Domain, m.TokenHash = 1, org, d.Domain, sweep.HashToken(d.Host, d.TXT)
		m.Proven = &sweep.Proof{At: s.clock.now().Add(-24 * time.Hour).UTC().Truncate(time.Second), Evidence: s.proofOf(d)}
	})
	return d
}

// proofOf returns stored evidence of a proof of the record.
func (s *sweepSite) proofOf(d sandbox.Domain) []byte {
	s.t.Helper()
	return s.proofThat(d, func(*evidence.Evidence) {})
}

// proofThat returns stored evidence of a proof of the record, after a change.
func (s *sweepSite) proofThat(d sandbox.Domain, change func(*evidence.Evidence)) []byte {
	s.t.Helper()
	proof := evidence.Evidence{Evidence: report.Evidence{State: "present", Reason: "found"}}
	proof.Compared = &evidence.Record{OrganizationID: org, DiscoveryDomainID: d.ID, Domain: d.Domain,
		Host: d.Host, TXT: d.TXT}
	change(&proof)
	packed, err := proof.Pack()
	if err != nil {
		s.t.Fatal(err)
	}
	return packed
}

// foreign makes a domain that another client has verified, and whose token is absent.
func (s *sweepSite) foreign(use *bool) sandbox.Domain {
	return s.domain(sandbox.Domain{Status: "verified", Use: use}, false)
}

// edit changes the tenant's record, as another client does.
func (s *sweepSite) edit(change func(*sandbox.Domain)) sandbox.Domain {
	s.t.Helper()
	d, _ := s.sandbox.Domain(org, dom)
	change(&d)
	s.sandbox.SetDomain(org, d)
	return d
}

// flag sets the record's flag; nil: the record omits it.
func (s *sweepSite) flag(use *bool) { s.edit(func(d *sandbox.Domain) { d.Use = use }) }

// publish publishes the domain's token.
func (s *sweepSite) publish() {
	d, _ := s.sandbox.Domain(org, dom)
	s.sandbox.SetTXT(d.Host, d.TXT)
}

// PATCH bodies.
const (
	patchUse        = `{"use_for_organization_discovery":true}`
	patchNoUse      = `{"use_for_organization_discovery":false}`
	patchPending    = `{"status":"pending","use_for_organization_discovery":true}`
	patchPendingNot = `{"status":"pending","use_for_organization_discovery":false}`
	patchVerify     = `{"status":"verified","use_for_organization_discovery":true}`
	patchVerifyNot  = `{"status":"verified","use_for_organization_discovery":false}`
)

// wantPatches compares the bodies of all PATCHes.
func (s *sweepSite) wantPatches(bodies ...string) {
	s.t.Helper()
	if have := s.writes(); !slices.Equal(have, bodies) {
		s.t.Errorf("PATCHes %q, want %q", have, bodies)
	}
}

// wantHistory checks that the history has an event that often, each with that reason.
func (s *sweepSite) wantHistory(what, why string, times int) {
	s.t.Helper()
	n := 0
	for _, e := range s.domainState().History {
		if e.What == what {
			n++
			if !contains(e.Why, why) {
				s.t.Errorf("%s: %q, want %q", what, e.Why, why)
			}
		}
	}
	if n != times {
		s.t.Errorf("the history has %q %d times, want %d: %+v", what, n, times, s.domainState().History)
	}
}

// wantRow checks the outcome of the result, and that its detail has these details.
func (s *sweepSite) wantRow(r ledger.Result, outcome ledger.Outcome, details ...string) {
	s.t.Helper()
	for _, detail := range details {
		if !contains(r.Detail, detail) {
			s.t.Errorf("detail %q, want %q", r.Detail, detail)
		}
	}
	if r.Outcome != outcome {
		s.t.Errorf("%s: %s; want %s", r.Outcome, r.Detail, outcome)
	}
}

// wantDomain checks that the domain has the status and the flag.
func (s *sweepSite) wantDomain(status string, use *bool) {
	s.t.Helper()
	d, _ := s.sandbox.Domain(org, dom)
	if d.Status != status || (d.Use == nil) != (use == nil) || use != nil && *d.Use != *use {
		s.t.Errorf("the domain is %s, flag %s; want %s, %s", d.Status, flagText(d.Use), status, flagText(use))
	}
}

func flagText(use *bool) string {
	if use == nil {
		return "omitted"
	}
	return fmt.Sprint(*use)
}

// wantVerdict checks that the last event of the history is the given one, with the answers that
// permitted the change, and that a log line has them too.
func (s *sweepSite) wantVerdict(what, state, audited string) {
	s.t.Helper()
	history := s.domainState().History
	last := history[len(history)-1]
	v, err := evidence.Read(last.Verdict)
	if err != nil || last.What != what || v.State != state || len(v.Said) != 3 || v.Compared.DiscoveryDomainID != dom {
		s.t.Errorf("the history ends with %q, by the verdict %+v, %v; want %q, by one that is %s",
			last.What, v, err, what, state)
	}
	if n := strings.Count(s.log.String(), `"msg":"audit","event":"`+audited+`"`); n < 1 || n > 2 {
		s.t.Errorf("%d audit lines %q, want one, or another one of a second execution", n, audited)
	}
}
