package handlers

// A revocation changes a tenant's record and may be killed anywhere. Right before its PATCH
// it stores an intent with the row and the request in the domain's state, the latter by
// compare-and-set, so that of two executions one sends it. An execution that finds the intent
// reads the record: if the PATCH has taken effect, the row is done; if it surely has not, the
// row begins anew, with a new check that the domain qualifies and another disproof. A sweep
// reads the result of a request whose row was given up.
//
// A PATCH that revokes is idempotent (specification 4.1), and so is one that undoes it. No
// PATCH is sent while the record omits its flag.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"orgops/apiclient"
	"orgops/apiclient/schema"
	"orgops/dnscheck"
	"orgops/dnscheck/report"
	"orgops/internal/activity"
	"orgops/internal/discovery"
	"orgops/internal/engine"
	"orgops/internal/evidence"
	"orgops/internal/ledger"
	"orgops/internal/sweep"
	"orgops/internal/untrusted"
	"orgops/tasks"
)

// Revoke is the kind of rows that revoke a domain whose token is gone, or route it again. A row's
// content is a [sweep.RevokeRow]. Only a command of an operator submits such rows, and sweeps
// those that route a domain again.
const Revoke ledger.Kind = tasks.TypeRevoke

type revokeRow struct{ sweep.RevokeRow }

// Validate checks the row, as far as that needs no tenant.
func (r revokeRow) Validate() error {
	switch {
	case r.Set != sweep.SetPending && r.Set != sweep.Unroute:
		return fmt.Errorf("set: want pending or unroute, got %s", untrusted.Value(r.Set))
	case r.Undo && r.Set != sweep.Unroute:
		return fmt.Errorf("set: a status is restored by rows of kind %s", Verify)
	case !r.Undo && r.Max <= 0:
		return fmt.Errorf("max: want 1 or more, got %d", r.Max)
	}
	return tasks.CheckDomainIDs(r.OrganizationID, r.DiscoveryDomainID)
}

// RevokeDNS is the part of [dnscheck.Checker] that revocations need.
type RevokeDNS interface {
	Prove(ctx context.Context, host, token string) (dnscheck.Verdict, error)
	Disprove(ctx context.Context, host, token string) (dnscheck.Verdict, error)
}

// RevokeConfig configures the handler of [Revoke].
type RevokeConfig struct {
	API    func(apiclient.Binding) Domains
	DNS    RevokeDNS
	States *sweep.States
	Rules  sweep.Rules
	// Places bounds the DNS checks at a time; nil: no limit. They should be of their own,
	// and few: a disproof queries many servers, of which some may be slow.
	Places *Places
	// NoServers says that the tenant is a sandbox, whose zone has no name servers: the
	// resolvers suffice then.
	NoServers bool
	// RequestTimeout is as in [VerifyConfig].
	RequestTimeout time.Duration
	Logger         *slog.Logger    // nil: none
	By             activity.Author // records revocations and their ends
}

// NewRevoke returns the handler of [Revoke].
func NewRevoke(cfg RevokeConfig) engine.Handler {
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	return engine.One(func(ctx context.Context, x *engine.Execution, row *engine.Row) *engine.Consequence {
		want, err := decode[revokeRow](row)
		if err != nil {
			return engine.Fail(err)
		}
		r := &revocation{
			change: change{
				x: x, row: row, api: cfg.API, timeout: cfg.RequestTimeout, settled: defaultSettled,
				organization: want.OrganizationID, domain: want.DiscoveryDomainID,
			},
			cfg: cfg, want: want,
		}
		if row.Intent != nil {
			r.intent = new(revokeIntent)
			if err := readIntent(row, r.intent); err != nil {
				return engine.Fail(err)
			}
		}
		return r.execute(ctx)
	})
}

// revokeIntent is the form in which the intent of a PATCH is stored.
type revokeIntent struct {
	At      time.Time `json:"at"`
	Verdict []byte    `json:"verdict"` // that permits it
}

// revocation is one execution of a row.
type revocation struct {
	change

	cfg    RevokeConfig
	want   revokeRow
	intent *revokeIntent // of an earlier execution, then of this one; nil: none
	state  sweep.DomainState
	raw    []byte // of state; nil: none is stored
}

func (r *revocation) execute(ctx context.Context) *engine.Consequence {
	var err error
	if r.state, r.raw, err = r.cfg.States.ReadNotified(ctx, r.domain); err != nil {
		return fail(err)
	}
	if r.intent != nil {
		if end := r.resume(ctx); end != nil {
			return end
		}
	}
	if r.x.FinishOnly {
		return engine.Fail(stopped(ctx, r.x, r.row))
	}
	why, err := r.nothingToDo(ctx)
	if err != nil {
		return fail(err)
	}
	if why != "" {
		return engine.Settle(unchanged(why))
	}
	// Before the read, which would be in vain without a place.
	free, ok := r.cfg.Places.take(r.state.Reason)
	if !ok {
		return noPlace()
	}
	defer free()
	d, err := r.read(ctx, r.x.Fenced())
	switch {
	case isNotFound(err):
		return r.gone(ctx)
	case err != nil:
		return engine.Fail(err)
	}
	if omitted := d.Flag == nil; omitted != r.state.FlagOmitted {
		r.state.FlagOmitted = omitted
		if err := r.write(ctx); err != nil {
			return fail(err)
		}
	}
	if r.want.Undo {
		return r.undo(ctx, d, free)
	}
	return r.revoke(ctx, d, free)
}

// nothingToDo returns why the row has nothing to do by the domain's state; "": its record is read.
func (r *revocation) nothingToDo(ctx context.Context) (string, error) {
	switch s := r.state; {
	case r.raw == nil || s.OrganizationID != r.organization:
		return "no sweep has found the domain", nil
	case r.want.Undo && (s.Revoked == nil || s.Revoked.Set != sweep.Unroute || s.Revoked.DoneAt.IsZero()):
		return "nothing to restore", nil
	case r.want.Undo:
		return "", nil
	}
	last, _, err := r.cfg.States.Summary(ctx)
	if err != nil {
		return "", err
	}
	why := r.cfg.Rules.Tightened(r.want.Grace, r.want.AbsentChecks).Unfit(r.state, last.Tick)
	if why != "" {
		why = "not revoked: " + why
	}
	return why, nil
}

// gone ends the row of a domain that does not exist. The state of a revoked domain stays: a
// single answer may be that of a server that is behind.
func (r *revocation) gone(ctx context.Context) *engine.Consequence {
	if r.state.Revoked != nil {
		return engine.Settle(unchanged("the domain was not found"))
	}
	r.row.Subject = &ledger.Subject{ID: r.domain, At: r.x.Now()}
	if err := r.cfg.States.DeleteState(ctx, r.domain); err != nil {
		return fail(err)
	}
	return engine.Settle(unchanged("the domain is gone"))
}

// revoke revokes a domain that qualifies by its state. free frees the place of its DNS check.
func (r *revocation) revoke(ctx context.Context, d discovery.Domain, free func()) *engine.Consequence {
	// The record is still the one that qualifies, its token was once proven, and there is something to
	// take away.
	flag := d.Flag
	switch {
	case !d.IsVerified():
		return r.clear(ctx, "pending", "someone else has set it to pending")
	case sweep.HashToken(d.Host, d.TXT) != r.state.TokenHash:
		return r.clear(ctx, "another token", "host or token differ from those that were checked")
	case !r.proven(d):
		return engine.Settle(unchanged("not revoked: unproven: the stored proof is none of the record's host and token"))
	case flag == nil:
		return engine.Settle(unchanged("not revoked: its record has no use_for_organization_discovery, so what a change " +
			"would replace is not known: set it explicitly once"))
	case r.want.Set == sweep.Unroute && !*flag:
		return engine.Settle(unchanged("not revoked: it is not used for discovery"))
	}

	// The token is gone, by the strict check that needs the name servers.
	verdict, err := r.cfg.DNS.Disprove(ctx, d.Host, d.TXT)
	free()
	switch {
	case err != nil:
		return engine.Fail(err)
	case verdict.State == dnscheck.Present:
		r.state.Found(r.domain, r.x.Now())
		return r.store(ctx, unchanged("not revoked: the token is there"))
	case verdict.State == dnscheck.Absent && verdict.Basis != dnscheck.ByBoth && !r.cfg.NoServers:
		return engine.Settle(unchanged(
			"not revoked: only resolvers deny the token, and the domain's name servers were not reached"))
	case verdict.State != dnscheck.Absent:
		return engine.Settle(unchanged("not revoked: " + verdict.Sentence()))
	}

	// The request. The status is sent with the flag as it was read.
	request := sweep.Revocation{Set: r.want.Set, Run: string(r.x.Run), Since: r.state.Absence.Since, Flag: *flag}
	sent := schema.DiscoveryDomainUpdate{Status: new(schema.StatusPending), UseForOrganizationDiscovery: flag}
	if r.want.Set == sweep.Unroute {
		sent = schema.DiscoveryDomainUpdate{UseForOrganizationDiscovery: new(false)}
	}
	if end := r.patch(ctx, d, verdict, sent, &request); end != nil {
		return end
	}
	return r.revoked(ctx, request)
}

// proven reports whether the state has the evidence that the record's token was once there.
func (r *revocation) proven(d discovery.Domain) bool {
	if r.state.Proven == nil {
		return false
	}
	e, err := evidence.Read(r.state.Proven.Evidence)
	return err == nil && e.State == report.Present && e.Compared != nil && e.Compared.OrganizationID == r.organization &&
		e.Compared.Proves(d)
}

// undo routes a domain again.
func (r *revocation) undo(ctx context.Context, d discovery.Domain, free func()) *engine.Consequence {
	switch flag := d.Flag; {
	case !d.IsVerified():
		return r.clear(ctx, "pending", "someone else has set it to pending: its flag stays as it is")
	case flag == nil:
		return engine.Settle(unchanged(
			"not restored: the record has no use_for_organization_discovery; it is restored once the record has it"))
	case *flag && r.isRecent():
		return engine.Later("the record may be read as it was before it was revoked", time.Minute)
	case *flag:
		return r.clear(ctx, "changed by others", "someone else has restored the flag")
	}
	verdict, err := r.cfg.DNS.Prove(ctx, d.Host, d.TXT)
	free()
	if err != nil {
		return engine.Fail(err)
	}
	if _, ok := verdict.Proof(); !ok {
		return engine.Settle(unchanged("not restored: " + verdict.Sentence()))
	}
	sent := schema.DiscoveryDomainUpdate{UseForOrganizationDiscovery: new(true)}
	if end := r.patch(ctx, d, verdict, sent, nil); end != nil {
		return end
	}
	return r.restored(ctx)
}

// isRecent reports whether reads may show the record as it was before the revocation.
func (r *revocation) isRecent() bool {
	return r.state.Revoked != nil && r.x.Now().Sub(r.state.Revoked.EffectiveAt()) < r.settled
}

// clear drops the absence and the revocation.
func (r *revocation) clear(ctx context.Context, what, why string) *engine.Consequence {
	r.state.Clear(r.x.Now(), what, why)
	return r.store(ctx, unchanged(why))
}

// store writes the state, and settles the row.
func (r *revocation) store(ctx context.Context, result ledger.Result) *engine.Consequence {
	if err := r.write(ctx); err != nil {
		return fail(err)
	}
	return engine.Settle(result)
}

// write stores the state, if it is still the one that was read, and notifies its events.
func (r *revocation) write(ctx context.Context) (err error) {
	r.raw, err = r.cfg.States.Write(ctx, r.domain, r.raw, &r.state)
	return err
}

// patch sends the PATCH that the verdict permits. With the permit in hand it counts the
// revocation, stores the intent, which asks the ledger whether the run is stopped, and the
// request in the state, which must not have changed since it was read. request is nil if the
// PATCH undoes one. The result is nil if the answer says that it was carried out.
func (r *revocation) patch(ctx context.Context, d discovery.Domain, verdict dnscheck.Verdict,
	sent schema.DiscoveryDomainUpdate, request *sweep.Revocation) *engine.Consequence {
	packed, err := evidence.OfProof(verdict.Evidence(), d, r.x.Now()).Pack()
	if err != nil {
		return engine.Fail(err)
	}
	if r.x.Stopping() {
		return engine.Fail(engine.ErrStopping)
	}

	// With the permit in hand: the record is fresh, the tenant has had fewer revocations than it may
	// have, the intent is stored, and then the request in the state, unless that has changed.
	store := func(ctx context.Context) error {
		if !r.isFresh(r.readAt) {
			return errStale
		}
		now := r.x.Now().UTC().Truncate(time.Second)
		if request != nil {
			ok, err := r.cfg.States.Store.CountRevocation(ctx, revocationName(r.x, r.row), now, r.want.Max)
			if err != nil {
				return err
			}
			if !ok {
				return errBrake
			}
		}
		r.intent = &revokeIntent{At: now, Verdict: packed}
		if err := putIntent(ctx, r.x.Intend, r.row, r.intent); err != nil || request == nil {
			return err
		}
		request.At = now
		request.Verdict = packed
		r.state.Revoked = new(*request)
		err := r.write(ctx)
		if err != nil {
			r.state.Revoked = nil
			return withdraw(ctx, r.x, r.row, err)
		}
		return nil
	}

	// A request that surely had no effect leaves neither.
	noEffect := func(ctx context.Context, reason error) error {
		if request != nil {
			r.state.Revoked = nil
			if err := r.write(ctx); err != nil {
				return both(reason, err)
			}
		}
		return withdraw(ctx, r.x, r.row, reason)
	}

	// The request, and the check of its answer.
	answer, err := r.send(ctx, sent, store, noEffect)
	if err == nil {
		err = carriedOut(sent, answer)
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errStale):
		return engine.Ready(errStale.Error() + "; it is read and checked again")
	case errors.Is(err, errBrake):
		return engine.Settle(unchanged(fmt.Sprintf(
			"not revoked: %d domains of the tenant were revoked in seven days, the most that may be (--max)", r.want.Max)))
	}
	return fail(err)
}

// errBrake says that a revocation was not sent since the tenant has had too many.
var errBrake = errors.New("too many domains were revoked")

// resume ends the request of an earlier execution; nil: the request had no effect, and another may
// begin.
func (r *revocation) resume(ctx context.Context) *engine.Consequence {
	// The state has its result, if the earlier execution was killed right before the row was settled.
	revoked := r.state.Revoked
	ours := revoked != nil && revoked.At.Equal(r.intent.At) && revoked.Run == string(r.x.Run)
	switch {
	case r.want.Undo && r.state.RestoredAt(r.intent.At):
		return engine.Settle(ledger.Result{Outcome: ledger.Done, Detail: detailRestored, Evidence: r.intent.Verdict})
	case !r.want.Undo && ours && !revoked.DoneAt.IsZero():
		return engine.Settle(r.result())
	}

	// Otherwise the record shows it.
	d, err := r.read(ctx, r.x.Unfenced())
	switch {
	case isNotFound(err):
		return r.gone(ctx)
	case err != nil: // a refusal says nothing of that request
		return engine.Fail(retryRefused(fmt.Errorf("read the result of a PATCH: %w", err)))
	}
	flag := d.Flag
	switch {
	case r.want.Undo && flag != nil && *flag && !r.isRecent():
		return r.restored(ctx)
	case !r.want.Undo && r.want.Set == sweep.SetPending && !d.IsVerified(),
		!r.want.Undo && r.want.Set == sweep.Unroute && flag != nil && !*flag:
		request := sweep.Revocation{Set: r.want.Set, Run: string(r.x.Run), At: r.intent.At, Since: r.intent.At, Flag: true,
			Verdict: r.intent.Verdict}
		if ours {
			request = *revoked
		} else if flag != nil && r.want.Set == sweep.SetPending {
			request.Flag = *flag
		}
		return r.revoked(ctx, request)
	}

	// The record does not show it: the request may still land, or the read be behind.
	if left := max(r.inFlight(r.intent.At), r.readAgain(r.intent.At)); left > 0 {
		return engine.Later("a PATCH of this domain had no response; its result is being read again",
			min(left, time.Minute))
	}
	if r.want.Set == sweep.Unroute && d.IsVerified() && flag == nil {
		return engine.Settle(unchanged(
			"the result of a PATCH is unknown: the record has no use_for_organization_discovery; sweeps read it again"))
	}

	// It had no effect.
	if ours && !r.want.Undo {
		r.state.Revoked = nil
		if err := r.write(ctx); err != nil {
			return fail(err)
		}
	}
	if r.x.FinishOnly && r.x.Cancelled {
		const detail = "the run was cancelled; a PATCH was under way, and did not take effect"
		return engine.Settle(ledger.Result{Outcome: ledger.Cancelled, Detail: detail})
	}
	return nil
}

// revoked stores that the request has taken effect. It does so even if another execution has
// dropped the request meanwhile: only a revocation that is stored is undone.
func (r *revocation) revoked(ctx context.Context, request sweep.Revocation) *engine.Consequence {
	r.audit(ctx, "domain revoked: "+string(request.Set))
	now := r.x.Now()
	var err error
	r.state, err = r.cfg.States.Change(ctx, r.domain, func(s *sweep.DomainState) {
		if s.OrganizationID == r.organization && (s.Revoked == nil || s.Revoked.DoneAt.IsZero()) {
			s.Revoked = new(request)
			s.RevokedAt(now)
		}
	})
	if err != nil {
		return fail(err)
	}
	r.recordActivity(ctx, activity.Revoked, string(request.Set))
	return engine.Settle(r.result())
}

// recordActivity adds the change to the activity, with what the domain is by it.
func (r *revocation) recordActivity(ctx context.Context, action activity.Action, now string) {
	e := activity.OfRun(r.x.Segment.Tenant, r.x.Run, action, r.state.Domain+": "+now)
	e.Domain = r.domain
	r.cfg.By.Record(ctx, e)
}

// result is the result of a revoked domain.
func (r *revocation) result() ledger.Result {
	return ledger.Result{Outcome: ledger.Done, Detail: string(r.want.Set) + ": " + r.state.Sentence,
		Evidence: r.intent.Verdict}
}

const detailRestored = "restored: the token is there again"

// restored stores that the domain is routed again.
func (r *revocation) restored(ctx context.Context) *engine.Consequence {
	r.audit(ctx, "domain routed again")
	r.state.Restored(r.domain, r.intent.At, r.intent.Verdict)
	if err := r.write(ctx); err != nil {
		return fail(err)
	}
	r.recordActivity(ctx, activity.Restored, r.want.Set.Undone())
	return engine.Settle(ledger.Result{Outcome: ledger.Done, Detail: detailRestored, Evidence: r.intent.Verdict})
}

// audit logs a change of the domain and the verdict that permitted it. An execution that is
// killed before it stores the change leaves another line to the next one, about the same
// request.
func (r *revocation) audit(ctx context.Context, event string) {
	verdict, err := evidence.Read(r.intent.Verdict)
	if err != nil {
		r.cfg.Logger.WarnContext(ctx, "evidence of a revocation not readable", "discovery_domain_id", r.domain, "error", err)
	}
	host := ""
	if verdict.Compared != nil {
		host = verdict.Compared.Host
	}
	r.cfg.Logger.InfoContext(ctx, "audit", "event", event, "run", r.x.Run,
		"organization_id", r.organization, "discovery_domain_id", r.domain, "domain", r.state.Domain,
		"verification_host", host,
		"decided_at", verdict.At, "state", verdict.State, "reason", verdict.Reason, "basis", verdict.Basis, "quorum",
		verdict.Quorum, "resolvers", verdict.Resolvers)
}
