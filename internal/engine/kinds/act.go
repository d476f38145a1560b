package kinds

// An action changes a tenant's record and may be killed anywhere. Before its PATCH it
// stores the request in the domain's state, by compare-and-set. An execution that finds a
// request there reads the record: if the PATCH has taken effect it finishes the action;
// if it surely has not, the action begins anew, with a new check that the token is gone.
// Later sweeps read its result too, so the request is stored in the state, and the
// row's intent in the ledger only keeps a row open whose run is stopped.
//
// A PATCH that takes something away is idempotent (specification 4.1), and so is one that
// gives the flag back. No PATCH is sent while the record omits its flag.

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"orgops/apiclient"
	"orgops/dnscheck"
	"orgops/internal/engine"
	"orgops/internal/ledger"
	"orgops/internal/sweep"
)

// Act is the kind of rows that act on a domain whose token is gone, or give its flag back.
// A row's content is a [sweep.ActionRow].
const Act ledger.Kind = "domain:act"

type actRow struct{ sweep.ActionRow }

// Validate checks the row, as far as that needs no tenant.
func (r actRow) Validate() error {
	return checkSwept(r.OrganizationID, r.DiscoveryDomainID, r.Tick)
}

// ActConfig configures the handler of [Act].
type ActConfig struct {
	API    Domains
	DNS    ActDNS
	States *sweep.States
	Rules  sweep.Rules
	// Places bounds the DNS checks at a time; nil: no limit. They should be of their own,
	// and few: a proof that a token is gone queries many servers, of which some may be slow.
	Places *Places
	// RequestTimeout is as in [VerifyConfig].
	RequestTimeout time.Duration
	Logger         *slog.Logger // nil: none
}

// ActDNS is the part of [dnscheck.Checker] that actions need.
type ActDNS interface {
	Prove(ctx context.Context, host, token string) (dnscheck.Verdict, error)
	Disprove(ctx context.Context, host, token string) (dnscheck.Verdict, error)
}

// NewAct returns the handler of [Act].
func NewAct(cfg ActConfig) engine.Handler {
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	return engine.One(func(ctx context.Context, x *engine.Execution, row *engine.Row) (ledger.Result, error) {
		a, err := newAction(cfg, x, row)
		if err != nil {
			return ledger.Result{}, err
		}
		defer func() { a.free() }()
		result, err := a.execute(ctx)
		return result, stateError(err)
	})
}

// action is one execution of a row.
type action struct {
	change

	cfg    ActConfig
	want   actRow
	former *actIntent // of an earlier execution of the row; nil: none
	state  sweep.DomainState
	raw    []byte // of state
	free   func() // frees the place of the DNS check, if it has one
}

// actIntent is the form in which the intent of an action's PATCH is stored.
type actIntent struct {
	// At is the time of the request in the domain's state.
	At time.Time `json:"at"`
}

// newAction reads the row's content and intent.
func newAction(cfg ActConfig, x *engine.Execution, row *engine.Row) (*action, error) {
	want, err := decode[actRow](row)
	if err != nil {
		return nil, err
	}
	a := &action{
		change: change{
			x: x, row: row, api: cfg.API, timeout: cfg.RequestTimeout, settled: defaultSettled,
			organization: want.OrganizationID, domain: want.DiscoveryDomainID,
		},
		cfg: cfg, want: want, free: func() {},
	}
	if row.Intent == nil {
		return a, nil
	}
	a.former = new(actIntent)
	return a, readIntent(row, a.former)
}

func (a *action) execute(ctx context.Context) (ledger.Result, error) {
	result, err := a.precede(ctx)
	if err != nil || result.Outcome != "" {
		return result, err
	}
	d, err := a.readRecord(ctx)
	switch {
	case isNotFound(err):
		return a.gone(ctx)
	case err != nil && a.state.InProgress != nil: // a refusal says nothing of that request
		return ledger.Result{}, retryRefused(fmt.Errorf("read the result of a PATCH: %w", err))
	case err != nil:
		return ledger.Result{}, err
	}
	return a.act(ctx, d)
}

// precede reads the state, and returns the result of a row that needs no record. An empty
// result means that the record is read. A row that may query DNS has its place then: a read
// before a query without a place would be in vain.
func (a *action) precede(ctx context.Context) (ledger.Result, error) {
	var err error
	if a.state, a.raw, err = a.cfg.States.ReadNotified(ctx, a.want.DiscoveryDomainID); err != nil {
		return ledger.Result{}, err
	}
	done := a.finished()
	switch {
	case a.raw == nil || a.state.OrganizationID != a.want.OrganizationID:
		return unchanged("the domain has no stored state"), nil
	case done != "":
		return ledger.Result{Outcome: ledger.Done, Detail: done}, nil
	case a.state.InProgress != nil:
		return ledger.Result{}, nil
	case a.x.FinishOnly:
		return ledger.Result{}, stopped(ctx, a.x, a.row)
	case a.want.Finish:
		return ledger.Result{}, nil
	}
	return a.start()
}

// start takes the place of a DNS check. The row is left open if too many are in progress. The
// result is that of a row that has nothing to do, and empty otherwise.
func (a *action) start() (ledger.Result, error) {
	if why := a.idle(); why != "" {
		return unchanged(why), nil
	}
	free, err := a.cfg.Places.take(a.state.Reason)
	if err == nil {
		a.free = free
	}
	return ledger.Result{}, err
}

// query queries DNS, and then frees the place of the execution.
func (a *action) query(ctx context.Context, query func(ctx context.Context, host, token string) (dnscheck.Verdict, error), d apiclient.DiscoveryDomain) (dnscheck.Verdict, error) {
	defer a.free()
	return query(ctx, d.VerificationHost, d.VerificationTXT)
}

// finished returns the change that an earlier execution of the row made before it was
// killed; "": none.
func (a *action) finished() string {
	s := a.state
	switch {
	case a.former == nil, s.InProgress != nil:
		return ""
	case s.Taken != nil && s.Taken.At.Equal(a.former.At):
		return string(s.Taken.Action) + ": " + s.Sentence
	case s.RestoredAt(a.former.At):
		return detailRestored
	}
	return ""
}

const detailRestored = "restored: the token is there again"

// idle returns why there is nothing to do while no request is in progress; "": there is.
func (a *action) idle() string {
	s := a.state
	if a.want.Back {
		if s.Taken == nil || s.Taken.Action != sweep.Unroute {
			return "nothing to restore"
		}
		return ""
	}
	if is := a.cfg.Rules.Assess(s); is.Status != sweep.StatusDue {
		return "no longer acted on: " + string(is.Status)
	}
	return ""
}

// readRecord reads the record. A read that finds the result of a request is not subject to the
// run's control.
func (a *action) readRecord(ctx context.Context) (apiclient.DiscoveryDomain, error) {
	if a.state.InProgress != nil {
		return a.read(apiclient.BeforeSending(ctx, a.stamp))
	}
	return a.read(a.x.Beginning(ctx, a.stamp))
}

// gone deletes the state of a domain that does not exist. If something was taken away from
// it, a sweep must have missed it too: a single answer may be that of a server that is
// behind.
func (a *action) gone(ctx context.Context) (ledger.Result, error) {
	ours := a.state.Taken != nil || a.state.InProgress != nil
	if ours && a.state.Tick >= a.want.Tick {
		return unchanged("the domain was not found: the next sweep shows whether it is gone"), nil
	}
	return unchanged("the domain is gone"), a.cfg.States.Forget(ctx, a.want.DiscoveryDomainID)
}

// act finishes the request in progress, if there is one, and acts on the domain.
func (a *action) act(ctx context.Context, d apiclient.DiscoveryDomain) (ledger.Result, error) {
	a.state.FlagOmitted = d.UseForOrganizationDiscovery == nil
	if a.state.InProgress != nil {
		result, err := a.finish(ctx, d)
		if err != nil || result.Outcome != "" {
			return result, err
		}
		// The request had no effect: it begins anew if the action is still due.
		if a.want.Finish {
			return unchanged("the request in progress did not take effect: the next sweep decides again"), nil
		}
		if result, err = a.start(); err != nil || result.Outcome != "" {
			return result, err
		}
	}
	switch {
	case a.want.Finish:
		return unchanged("the domain exists, and no request is in progress"), nil
	case a.want.Back:
		return a.giveBack(ctx, d)
	}
	return a.takeAway(ctx, d)
}

// finish ends the request in progress. An empty result means that the request had no effect,
// and that another may begin.
func (a *action) finish(ctx context.Context, d apiclient.DiscoveryDomain) (ledger.Result, error) {
	request := *a.state.InProgress
	switch {
	case request.Back && isTrue(d.UseForOrganizationDiscovery) && !a.isRecent(a.state.Taken):
		return a.given(ctx)
	case !request.Back && hasEffect(request, d):
		return a.taken(ctx, d)
	}
	if left := max(a.inFlight(request.At), a.readAgain(request.At)); left > 0 {
		return ledger.Result{}, engine.Later("a PATCH of this domain had no response; its result is being read again", min(left, time.Minute))
	}
	if request.Action == sweep.Unroute && d.Status == apiclient.StatusVerified && a.state.FlagOmitted {
		const why = "the record has no use_for_organization_discovery: the next sweep reads it again"
		a.state.NoteOnce(a.x.Now(), "whether a PATCH took effect is unknown", why)
		return unchanged("the result of a PATCH is unknown: " + why), a.write(ctx)
	}
	a.state.InProgress = nil
	if err := a.write(ctx); err != nil || !a.x.FinishOnly {
		return ledger.Result{}, err
	}
	if a.x.Cancelled {
		const detail = "the run was cancelled; a PATCH was under way, and did not take effect"
		return ledger.Result{Outcome: ledger.Cancelled, Detail: detail}, nil
	}
	return ledger.Result{}, stopped(ctx, a.x, a.row)
}

// isRecent reports whether reads may show the record as it was before the request.
func (a *action) isRecent(taken *sweep.ActionRequest) bool {
	return taken != nil && a.x.Now().Sub(taken.EffectiveAt()) < a.settled
}

// hasEffect reports whether the record shows the effect of the request. A record that
// omits its flag does not show that.
func hasEffect(request sweep.ActionRequest, d apiclient.DiscoveryDomain) bool {
	if request.Action == sweep.SetPending {
		return d.Status == apiclient.StatusPending
	}
	return d.UseForOrganizationDiscovery != nil && !*d.UseForOrganizationDiscovery
}

func isTrue(flag *bool) bool { return flag != nil && *flag }

// write stores the state, if it is still the one that was read, and notifies its events.
func (a *action) write(ctx context.Context) (err error) {
	a.raw, err = a.cfg.States.Write(ctx, a.want.DiscoveryDomainID, a.raw, &a.state)
	return err
}

// takeAway acts on a domain that is due.
func (a *action) takeAway(ctx context.Context, d apiclient.DiscoveryDomain) (ledger.Result, error) {
	if b, _, err := a.cfg.States.Breaker(ctx); err != nil || b.Open {
		return unchanged("the breaker is open: " + b.Why), err
	}
	switch {
	case a.want.Tick != a.state.Tick:
		return unchanged("a later sweep has checked it and decides"), nil
	case d.Status != apiclient.StatusVerified:
		return a.clear(ctx, "pending", "someone else has set it to pending")
	case sweep.HashToken(d.VerificationHost, d.VerificationTXT) != a.state.TokenHash:
		return a.clear(ctx, "another token", "host or token differ from those that were checked")
	}
	verdict, err := a.query(ctx, a.cfg.DNS.Disprove, d)
	if err != nil {
		return ledger.Result{}, err
	}
	switch verdict.State {
	case dnscheck.Present:
		a.state.FoundBetween(a.want.DiscoveryDomainID, a.state, a.x.Now())
		return unchanged("not acted on: the token is there"), a.write(ctx)
	case dnscheck.Unknown:
		return unchanged("not acted on, the next sweep decides again: " + verdict.Sentence()), nil
	}
	kind := a.cfg.Rules.ActionOn(a.state)
	if kind == sweep.Report || kind == sweep.Unroute && !isTrue(d.UseForOrganizationDiscovery) {
		return a.report(ctx, kind, verdict)
	}
	return a.patch(ctx, d, verdict, sweep.ActionRequest{
		Action: kind, Tick: a.want.Tick, Since: a.state.Absence.Since, Host: d.VerificationHost, TXT: d.VerificationTXT, Flag: d.UseForOrganizationDiscovery,
	})
}

// clear drops the absence, and the taken value.
func (a *action) clear(ctx context.Context, what, why string) (ledger.Result, error) {
	a.state.Clear(a.x.Now(), what, why)
	return unchanged(why), a.write(ctx)
}

// report notifies that the domain is lost, once, and does nothing else.
func (a *action) report(ctx context.Context, kind sweep.Action, v dnscheck.Verdict) (ledger.Result, error) {
	if !a.state.Absence.Reported.IsZero() {
		return unchanged("its loss was notified"), a.write(ctx) // whether the record omits its flag
	}
	why := v.Sentence()
	if omission := a.cfg.Rules.Omission(a.state); omission != "" {
		why = omission + ". " + why
	}
	a.state.Report(a.want.DiscoveryDomainID, a.x.Now(), kind, why)
	return ledger.Result{Outcome: ledger.Done, Detail: string(sweep.Report) + ": " + why}, a.write(ctx)
}

// giveBack gives back the flag that was taken away.
func (a *action) giveBack(ctx context.Context, d apiclient.DiscoveryDomain) (ledger.Result, error) {
	taken := *a.state.Taken
	switch {
	case d.Status != apiclient.StatusVerified:
		return a.clear(ctx, "pending", "someone else has set it to pending: its flag stays as it is")
	case isTrue(d.UseForOrganizationDiscovery) && a.isRecent(&taken):
		return ledger.Result{}, engine.Later("the record may be read as it was before it was acted on", time.Minute)
	case isTrue(d.UseForOrganizationDiscovery):
		return a.clear(ctx, "changed by others", "someone else has restored the flag")
	case sweep.HashToken(d.VerificationHost, d.VerificationTXT) != a.state.TokenHash:
		return unchanged("host or token differ from those that were seen"), nil
	}
	if why := a.state.Withheld(); why != "" {
		return a.withhold(ctx, why)
	}
	verdict, err := a.query(ctx, a.cfg.DNS.Prove, d)
	if err != nil {
		return ledger.Result{}, err
	}
	if verdict.State != dnscheck.Present {
		return a.withhold(ctx, verdict.Sentence())
	}
	taken.Back = true
	return a.patch(ctx, d, verdict, taken)
}

// withhold stores why the flag is not given back.
func (a *action) withhold(ctx context.Context, why string) (ledger.Result, error) {
	a.state.NotRestored(a.x.Now(), why)
	return unchanged("not restored: " + why), a.write(ctx)
}

// changeOf returns the PATCH of a request. The status goes with the flag as it was read:
// the specification gives that a default of true (4.1).
func changeOf(request sweep.ActionRequest) apiclient.DiscoveryDomainUpdate {
	if request.Action == sweep.SetPending {
		return apiclient.DiscoveryDomainUpdate{Status: new(apiclient.StatusPending), UseForOrganizationDiscovery: request.Flag}
	}
	return apiclient.DiscoveryDomainUpdate{UseForOrganizationDiscovery: new(request.Back)}
}

// patch sends the PATCH that the verdict permits. With the permit in hand it stores the
// intent, which asks the ledger whether the run is stopped, and the request in the state,
// which must not have changed since it was read.
func (a *action) patch(ctx context.Context, d apiclient.DiscoveryDomain, verdict dnscheck.Verdict, request sweep.ActionRequest) (ledger.Result, error) {
	var err error
	if request.Verdict, err = proofEvidence(verdict, newCompared(a.want.OrganizationID, d), a.x.Now()).pack(); err != nil {
		return ledger.Result{}, err
	}
	if a.x.Stopping() {
		return ledger.Result{}, engine.ErrStopping
	}
	sent := changeOf(request)
	store := func(ctx context.Context) error { return a.begin(ctx, request) }
	answer, err := a.send(ctx, sent, store, a.undo)
	if err != nil {
		return ledger.Result{}, err
	}
	if err := carriedOut(sent, answer); err != nil {
		return ledger.Result{}, err
	}
	if request.Back {
		return a.given(ctx)
	}
	return a.took(ctx, answer)
}

// begin stores a request that is about to be sent.
func (a *action) begin(ctx context.Context, request sweep.ActionRequest) error {
	if !a.isFresh(a.readAt) {
		return engine.Ready("the record was read too long before the permit; it is read and checked again")
	}
	request.At = a.x.Now().UTC().Truncate(time.Second)
	if err := intend(ctx, a.x, a.row, actIntent{At: request.At}); err != nil {
		return err
	}
	a.state.InProgress = &request
	err := a.write(ctx)
	if err != nil {
		a.state.InProgress = nil
		return withdraw(ctx, a.x, a.row, err)
	}
	return nil
}

// undo drops the request of this execution, which had no effect. It returns the reason.
func (a *action) undo(ctx context.Context, reason error) error {
	a.state.InProgress = nil
	if err := a.write(ctx); err != nil {
		return both(reason, err)
	}
	return withdraw(ctx, a.x, a.row, reason)
}

// taken stores that a read has shown the effect of the request in progress. If the record
// has another host or token by then, those are needed to give back the taken value.
func (a *action) taken(ctx context.Context, d apiclient.DiscoveryDomain) (ledger.Result, error) {
	done := *a.state.InProgress
	a.audit(ctx, done)
	a.state.TookAway(a.want.DiscoveryDomainID, a.x.Now(), d.VerificationHost, d.VerificationTXT)
	return ledger.Result{Outcome: ledger.Done, Detail: string(done.Action) + ": " + a.state.Sentence}, a.write(ctx)
}

// took is taken after the answer to this execution's own PATCH. It stores that even if
// another execution has dropped the request meanwhile: only a stored value is given back.
func (a *action) took(ctx context.Context, d apiclient.DiscoveryDomain) (ledger.Result, error) {
	done, now := *a.state.InProgress, a.x.Now()
	a.audit(ctx, done)
	s, err := a.cfg.States.Change(ctx, a.want.DiscoveryDomainID, func(s *sweep.DomainState) {
		if s.Taken == nil && s.OrganizationID == a.want.OrganizationID {
			s.InProgress = &done
			s.TookAway(a.want.DiscoveryDomainID, now, d.VerificationHost, d.VerificationTXT)
		}
	})
	return ledger.Result{Outcome: ledger.Done, Detail: string(done.Action) + ": " + s.Sentence}, err
}

// given stores that the flag was given back.
func (a *action) given(ctx context.Context) (ledger.Result, error) {
	done := *a.state.InProgress
	a.audit(ctx, done)
	a.state.Restored(a.want.DiscoveryDomainID, done.At, done.Verdict)
	return ledger.Result{Outcome: ledger.Done, Detail: detailRestored}, a.write(ctx)
}

// audit logs a change of the domain and the verdict that permitted it. An execution that is
// killed before it stores the change leaves another line to the next one, about the same
// request.
func (a *action) audit(ctx context.Context, done sweep.ActionRequest) {
	event := "domain unrouted"
	switch {
	case done.Back:
		event = "domain routed again"
	case done.Action == sweep.SetPending:
		event = "domain set to pending"
	}
	verdict, err := ReadEvidence(done.Verdict)
	if err != nil && len(done.Verdict) > 0 {
		a.cfg.Logger.WarnContext(ctx, "evidence of an action not readable", "discovery_domain_id", a.want.DiscoveryDomainID, "error", err)
	}
	a.cfg.Logger.InfoContext(ctx, "audit", "event", event, "run", a.x.Run, "tick", done.Tick,
		"organization_id", a.state.OrganizationID, "discovery_domain_id", a.want.DiscoveryDomainID, "domain", a.state.Domain, "verification_host", done.Host,
		"decided_at", verdict.At, "state", verdict.State, "reason", verdict.Reason, "basis", verdict.Basis, "quorum", verdict.Quorum, "resolvers", verdict.Resolvers)
}
