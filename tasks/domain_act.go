package tasks

// An action changes a tenant's record, and may be killed anywhere. Before its PATCH it
// writes down, with what is remembered of the domain, what it is about to do; a second
// run that finds this reads the record. What has landed is finished; what has surely not
// begins anew, with a new proof that the token is gone. A PATCH that takes away is
// idempotent (specification 4.1), and so is the one that gives the flag back. No PATCH is
// made while the record omits its flag.

import (
	"context"
	"errors"
	"fmt"
	"time"

	"orgops/apiclient"
	"orgops/dnscheck"
)

// ActPayload asks to act on a domain that is due by the rules, or to give back what
// was taken from it; it is the payload of domain:act. What is done is decided when it
// is carried out, by the rules of then.
type ActPayload struct {
	Envelope

	OrganizationID    string `json:"organization_id"`
	DiscoveryDomainID string `json:"discovery_domain_id"`
	Tick              int64  `json:"tick"`           // of the sweep that it was decided on
	Back              bool   `json:"back,omitempty"` // give back
	// Finish: nothing is begun; what had begun is found out, or that the domain is gone.
	Finish bool `json:"finish,omitempty"`
}

// Validate checks what does not need the tenant.
func (p ActPayload) Validate() error {
	if p.Tick <= 0 {
		return fmt.Errorf("tick: want a Unix second, got %d", p.Tick)
	}
	return checkDomainIDs(p.OrganizationID, p.DiscoveryDomainID)
}

func (p ActPayload) task() spec {
	key := p.DiscoveryDomainID
	if p.Back {
		key += "-back"
	}
	return spec{typ: TypeAct, payload: p, id: scheduledTaskID(TypeAct, p.Tenant, key, p.Tick), queue: SweepQueue(p.Tenant)}
}

// giveBack is the task that gives the domain's flag back.
func (p RecheckPayload) giveBack(now time.Time) spec {
	return ActPayload{
		Envelope:       Envelope{V: Version, Tenant: p.Tenant, Run: p.Run, CreatedAt: now.UTC()},
		OrganizationID: p.OrganizationID, DiscoveryDomainID: p.DiscoveryDomainID, Tick: p.Tick, Back: true,
	}.task()
}

type act struct {
	cfg        Config
	remembered remembered
}

// acted is a domain in the course of an action.
type acted struct {
	id  string
	m   Memory
	raw []byte // as it is remembered
}

func (h *act) process(ctx context.Context, _ Job, p ActPayload) (Result, error) {
	m, raw, err := h.remembered.read(ctx, p.DiscoveryDomainID)
	if err != nil {
		return Result{}, err
	}
	if raw == nil || m.OrganizationID != p.OrganizationID {
		return unchanged("the domain has no stored state"), nil
	}
	a := &acted{id: p.DiscoveryDomainID, m: m, raw: raw}
	if a.raw, err = h.remembered.tell(ctx, a.id, a.raw, &a.m); err != nil {
		return Result{}, err
	}
	if why := h.idle(p, a.m); why != "" && !p.Finish {
		return unchanged(why), nil
	}
	d, err := h.cfg.API.DiscoveryDomain(ctx, p.OrganizationID, p.DiscoveryDomainID)
	if isGone(err) {
		return h.gone(ctx, a, p)
	}
	if err != nil {
		if a.m.Acting != nil && Judge(err).Outcome == Refused {
			err = transient(fmt.Errorf("read the result of a PATCH: %w", err))
		}
		return Result{}, err
	}
	a.m.FlagOmitted = d.UseForOrganizationDiscovery == nil
	if a.m.Acting != nil {
		if r, over, err := h.finish(ctx, a, d); over || err != nil {
			return r, err
		}
		// What had begun has not landed: it begins anew, if it is still to be done.
		if p.Finish {
			return unchanged("the request in progress did not take effect: the next sweep decides again"), nil
		}
		if why := h.idle(p, a.m); why != "" {
			return unchanged(why), nil
		}
	}
	switch {
	case p.Finish:
		return unchanged("the token is there"), nil
	case p.Back:
		return h.giveBack(ctx, a, p, d)
	}
	return h.takeAway(ctx, a, p, d)
}

// gone forgets a domain that there is not. One from which something was taken away is
// forgotten only if a sweep has not come upon it either: one answer may be of a server
// that is behind.
func (h *act) gone(ctx context.Context, a *acted, p ActPayload) (Result, error) {
	ours := a.m.Taken != nil || a.m.Acting != nil
	if ours && a.m.Tick >= p.Tick {
		return unchanged("the domain was not found: the next sweep shows whether it is gone"), nil
	}
	return unchanged("the domain is gone"), h.remembered.forget(ctx, a.id)
}

func unchanged(why string) Result { return Result{Outcome: Unchanged, Detail: why} }

// idle says why there is nothing to do; empty: there is.
func (h *act) idle(p ActPayload, m Memory) string {
	if m.Acting != nil {
		return ""
	}
	if p.Back {
		if m.Taken == nil || m.Taken.Action != ActUnroute {
			return "nothing to restore"
		}
		return ""
	}
	if stands := h.cfg.Rules.Decide(m); stands.As != StandsDue {
		return "no longer acted on: " + stands.As
	}
	return ""
}

// finish ends what an earlier execution has begun; over: that is all there is to do.
func (h *act) finish(ctx context.Context, a *acted, d apiclient.DiscoveryDomain) (r Result, over bool, err error) {
	doing := *a.m.Acting
	switch {
	case doing.Back && d.UseForOrganizationDiscovery != nil && *d.UseForOrganizationDiscovery && !h.justLanded(a.m.Taken):
		r, err = h.given(ctx, a)
		return r, true, err
	case !doing.Back && doing.landed(d):
		r, err = h.taken(ctx, a, d)
		return r, true, err
	}
	if wait := doing.At.Add(young).Sub(h.cfg.Now()); wait > 0 {
		const again = time.Minute // costs a request
		return r, true, later("a PATCH of this domain had no response; its result is being read again", wholeSeconds(min(wait, again)))
	}
	if doing.Action == ActUnroute && d.Status == apiclient.StatusVerified && a.m.FlagOmitted {
		const why = "the record has no use_for_organization_discovery: the next sweep reads it again"
		a.m.noteOnce(h.cfg.Now(), "whether a PATCH took effect is unknown", why)
		_, err = h.remembered.write(ctx, a.id, a.raw, &a.m)
		return unchanged("the result of a PATCH is unknown: " + why), true, err
	}
	a.m.Acting = nil
	a.raw, err = h.remembered.write(ctx, a.id, a.raw, &a.m)
	return r, err != nil, err
}

// justLanded says that a record may still be read as it was before that.
func (h *act) justLanded(taken *Acting) bool {
	return taken != nil && h.cfg.Now().Sub(taken.landedAt()) < young
}

// landed says whether the record reads as if what was begun had been done. A record
// that does not tell its flag says nothing of that.
func (in Acting) landed(d apiclient.DiscoveryDomain) bool {
	if in.Action == ActPending {
		return d.Status == apiclient.StatusPending
	}
	return d.UseForOrganizationDiscovery != nil && !*d.UseForOrganizationDiscovery
}

// takeAway acts on a domain that is due.
func (h *act) takeAway(ctx context.Context, a *acted, p ActPayload, d apiclient.DiscoveryDomain) (Result, error) {
	if b, err := h.breaker(ctx); err != nil || b.Open {
		return unchanged("the breaker is open: " + b.Why), err
	}
	switch {
	case p.Tick != a.m.Tick:
		return unchanged("a later sweep has checked it and decides"), nil
	case d.Status != apiclient.StatusVerified:
		return h.clear(ctx, a, "pending", "someone else has set it to pending")
	case tokenOf(d.VerificationHost, d.VerificationTXT) != a.m.Token:
		return h.clear(ctx, a, "another token", "host or token differ from those that were checked")
	}
	verdict, err := h.cfg.DNS.Disprove(ctx, d.VerificationHost, d.VerificationTXT)
	if err != nil {
		return Result{}, err
	}
	switch verdict.State {
	case dnscheck.Present:
		s := sighted{id: a.id, organization: p.OrganizationID, domain: d.Domain, token: a.m.Token, tick: a.m.Tick, between: true, verdict: verdict, at: h.cfg.Now()}
		a.m, _ = a.m.seen(s)
		_, err := h.remembered.write(ctx, a.id, a.raw, &a.m)
		return unchanged("not acted on: the token is there"), err
	case dnscheck.Unknown:
		return unchanged("not acted on, the next sweep decides again: " + verdict.Sentence()), nil
	}
	action := h.cfg.Rules.ActionOn(a.m)
	if action == ActReport || action == ActUnroute && !*d.UseForOrganizationDiscovery {
		return h.report(ctx, a, action, verdict)
	}
	disproof, err := packProof(verdict, p.OrganizationID, d, h.cfg.Now(), nil)
	if err != nil {
		return Result{}, err
	}
	a.m.Acting = &Acting{
		Action: action, At: second(h.cfg.Now()), Tick: p.Tick, Since: a.m.Absence.Since,
		Host: d.VerificationHost, TXT: d.VerificationTXT, Flag: d.UseForOrganizationDiscovery, Verdict: disproof,
	}
	return h.patch(ctx, a, p, a.m.Acting.change())
}

// change is the PATCH body. Where the status is sent the flag goes along as it was
// read: the specification gives it a default of true (4.1).
func (in Acting) change() apiclient.DiscoveryDomainUpdate {
	if in.Action == ActPending {
		return apiclient.DiscoveryDomainUpdate{Status: new(apiclient.StatusPending), UseForOrganizationDiscovery: in.Flag}
	}
	return apiclient.DiscoveryDomainUpdate{UseForOrganizationDiscovery: new(in.Back)}
}

// patch writes down what is begun, and does it.
func (h *act) patch(ctx context.Context, a *acted, p ActPayload, change apiclient.DiscoveryDomainUpdate) (Result, error) {
	if stopping(h.cfg.Stopping) {
		return Result{}, ErrStopping
	}
	var err error
	if a.raw, err = h.remembered.write(ctx, a.id, a.raw, &a.m); err != nil {
		return Result{}, err
	}
	answer, err := h.cfg.API.UpdateDiscoveryDomain(ctx, p.OrganizationID, p.DiscoveryDomainID, change)
	if err != nil {
		if noEffect(err) {
			a.m.Acting = nil
			_, undone := h.remembered.write(ctx, a.id, a.raw, &a.m)
			err = errors.Join(err, undone)
		}
		return Result{}, err
	}
	if err := carriedOut(change, answer); err != nil {
		return Result{}, err
	}
	if a.m.Acting.Back {
		return h.given(ctx, a)
	}
	return h.taken(ctx, a, answer)
}

// taken remembers that something was taken away. Should the record have got another
// host or token meanwhile, it is those whose return gives it back.
func (h *act) taken(ctx context.Context, a *acted, d apiclient.DiscoveryDomain) (Result, error) {
	now, done := h.cfg.Now(), *a.m.Acting
	h.audit(ctx, a, done)
	verdict := done.Verdict
	done.Landed, done.Verdict = second(now), nil
	a.m.Taken, a.m.Acting, a.m.Absence = &done, nil, nil
	a.m.Token = tokenOf(d.VerificationHost, d.VerificationTXT)
	a.m.noteActed(now, "acted on: "+string(done.Action), a.m.Sentence, verdict)
	s := sighted{id: a.id, tick: done.Tick, at: done.At}
	a.m.untold(s, NoticeLost, NoticeData{Reason: a.m.Sentence, Since: done.Since, Action: string(done.Action)})
	if _, err := h.remembered.write(ctx, a.id, a.raw, &a.m); err != nil {
		return Result{}, err
	}
	return Result{Outcome: Done, Detail: string(done.Action) + ": " + a.m.Sentence}, nil
}

// report tells that the domain is lost, and does nothing else.
func (h *act) report(ctx context.Context, a *acted, action Action, v dnscheck.Verdict) (Result, error) {
	now := second(h.cfg.Now())
	a.m = a.m.clone()
	if !a.m.Absence.Reported.IsZero() {
		_, err := h.remembered.write(ctx, a.id, a.raw, &a.m) // whether the record says its flag
		return unchanged("its loss was notified"), err
	}
	why := v.Sentence()
	if omission := h.cfg.Rules.omission(a.m); omission != "" {
		why = omission + ". " + why
	}
	a.m.Absence.Reported, a.m.Absence.ReportedAs = now, action
	a.m.note(now, "reported", why)
	s := sighted{id: a.id, tick: a.m.Tick, at: now}
	a.m.untold(s, NoticeLost, NoticeData{Reason: why, Since: a.m.Absence.Since, Action: string(ActReport)})
	_, err := h.remembered.write(ctx, a.id, a.raw, &a.m)
	return Result{Outcome: Done, Detail: string(ActReport) + ": " + why}, err
}

// giveBack gives the flag back that we took.
func (h *act) giveBack(ctx context.Context, a *acted, p ActPayload, d apiclient.DiscoveryDomain) (Result, error) {
	taken := *a.m.Taken
	switch {
	case d.Status != apiclient.StatusVerified:
		return h.clear(ctx, a, "pending", "someone else has set it to pending: its flag stays as it is")
	case d.UseForOrganizationDiscovery != nil && *d.UseForOrganizationDiscovery:
		if h.justLanded(&taken) {
			return Result{}, later("the record may be read as it was before it was acted on", wholeSeconds(time.Minute))
		}
		return h.clear(ctx, a, "changed by others", "someone else has restored the flag")
	case tokenOf(d.VerificationHost, d.VerificationTXT) != a.m.Token:
		return unchanged("host or token differ from those that were seen"), nil
	}
	if why := a.m.Withheld(); why != "" {
		a.m.noteOnce(h.cfg.Now(), eventWithheld, why)
		_, err := h.remembered.write(ctx, a.id, a.raw, &a.m)
		return unchanged("not restored: " + why), err
	}
	verdict, err := h.cfg.DNS.Prove(ctx, d.VerificationHost, d.VerificationTXT)
	if err != nil {
		return Result{}, err
	}
	if verdict.State != dnscheck.Present {
		why := verdict.Sentence()
		if verdict.Thin {
			why += " Sweeps accept only a full proof."
		}
		a.m.noteOnce(h.cfg.Now(), eventWithheld, why)
		_, err := h.remembered.write(ctx, a.id, a.raw, &a.m)
		return unchanged("not restored: " + why), err
	}
	taken.Back, taken.At = true, second(h.cfg.Now())
	if taken.Verdict, err = packProof(verdict, p.OrganizationID, d, h.cfg.Now(), nil); err != nil {
		return Result{}, err
	}
	a.m.Acting = &taken
	return h.patch(ctx, a, p, taken.change())
}

// given remembers that what was taken away has been given back.
func (h *act) given(ctx context.Context, a *acted) (Result, error) {
	done := *a.m.Acting
	h.audit(ctx, a, done)
	a.m.restored(sighted{id: a.id, tick: a.m.Tick, at: done.At}, done.Verdict)
	_, err := h.remembered.write(ctx, a.id, a.raw, &a.m)
	return Result{Outcome: Done, Detail: "restored: the token is there again"}, err
}

// audit logs what was done to the domain, and by which verdict. An execution that is killed
// before that is remembered leaves another line to the next one, about the same request.
func (h *act) audit(ctx context.Context, a *acted, done Acting) {
	event := "domain unrouted"
	switch {
	case done.Back:
		event = "domain routed again"
	case done.Action == ActPending:
		event = "domain set to pending"
	}
	verdict, err := ReadEvidence(done.Verdict)
	if err != nil && len(done.Verdict) > 0 {
		h.cfg.Logger.WarnContext(ctx, "evidence of an action not readable", "discovery_domain_id", a.id, "error", err)
	}
	h.cfg.Logger.InfoContext(ctx, "audit", "event", event, "tenant", h.cfg.Tenant, "tick", done.Tick,
		"organization_id", a.m.OrganizationID, "discovery_domain_id", a.id, "domain", a.m.Domain, "verification_host", done.Host,
		"decided_at", verdict.At, "state", verdict.State, "reason", verdict.Reason, "basis", verdict.Basis, "quorum", verdict.Quorum, "resolvers", verdict.Resolvers)
}

// clear forgets that the token is gone, and that anything was taken away.
func (h *act) clear(ctx context.Context, a *acted, what, why string) (Result, error) {
	a.m.Absence, a.m.Taken = nil, nil
	a.m.note(h.cfg.Now(), what, why)
	_, err := h.remembered.write(ctx, a.id, a.raw, &a.m)
	return unchanged(why), err
}

func (h *act) breaker(ctx context.Context) (Breaker, error) {
	b, _, err := readBreaker(ctx, h.cfg.Memories)
	return b, err
}
