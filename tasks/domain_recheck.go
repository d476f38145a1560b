package tasks

// A re-check looks and writes down what it has seen, once for each domain, token
// and tick: a second run of it finds that written already, and settles its row as the
// first would have. It changes nothing at the tenant. Where a domain that is pending has
// its token it hands the row on to a confirm, of which it is the look.

import (
	"context"
	"errors"
	"fmt"
	"time"

	"orgops/apiclient"
	"orgops/dnscheck"
)

// RecheckPayload asks for one look at a discovery domain by a sweep; it is the
// payload of domain:recheck, a row's, and of domain:relook, which is looked at again
// between two sweeps and belongs to no row. Host, token and status are as the sweep
// read them.
type RecheckPayload struct {
	Envelope

	OrganizationID              string                 `json:"organization_id"`
	DiscoveryDomainID           string                 `json:"discovery_domain_id"`
	Domain                      string                 `json:"domain"`
	VerificationHost            string                 `json:"verification_host"`
	VerificationTXT             string                 `json:"verification_txt"`
	Status                      apiclient.DomainStatus `json:"status"`
	UseForOrganizationDiscovery *bool                  `json:"use_for_organization_discovery,omitempty"` // nil: not said
	// Prove says that a pending domain whose token is there is to be proven, whether
	// or not it was set to pending by us.
	Prove bool  `json:"prove,omitempty"`
	Tick  int64 `json:"tick"` // the sweep's, a Unix second
}

// Validate checks what does not need the tenant.
func (p RecheckPayload) Validate() error {
	if p.Tick <= 0 {
		return fmt.Errorf("tick: want a Unix second, got %d", p.Tick)
	}
	return p.checkRecord()
}

func (p RecheckPayload) checkRecord() error {
	if err := checkDomainIDs(p.OrganizationID, p.DiscoveryDomainID); err != nil {
		return err
	}
	switch {
	case len(p.Domain) > maxDomain:
		return fmt.Errorf("domain: at most %d bytes, got %d", maxDomain, len(p.Domain))
	case p.VerificationTXT == "" || len(p.VerificationTXT) > maxToken:
		return fmt.Errorf("verification_txt: want 1 to %d bytes, got %d", maxToken, len(p.VerificationTXT))
	case p.Status != apiclient.StatusVerified && p.Status != apiclient.StatusPending:
		return fmt.Errorf("status: want verified or pending, got %.20q", string(p.Status))
	}
	if err := dnscheck.CheckHost(p.VerificationHost); err != nil {
		return fmt.Errorf("verification_host: %w", err)
	}
	return nil
}

type recheck struct {
	cfg        Config
	remembered remembered
}

func (h *recheck) process(ctx context.Context, job Job, p RecheckPayload) (Result, error) {
	if h.cfg.TrustPayload {
		return Result{}, refused("the tenant's settings trust payloads because its credentials may not read: then its domains cannot be swept")
	}
	// A PATCH of this row may have landed: what became of it is the confirm's to see to.
	if former, err := begun(job); err != nil || former != nil {
		if err != nil {
			return Result{}, err
		}
		return h.handOn(ctx, job, p, target{former.Host, former.TXT}, former.Flag)
	}
	m, raw, err := h.remembered.read(ctx, p.DiscoveryDomainID)
	if err != nil {
		return Result{}, err
	}
	if m.Taken != nil && p.contradicts(*m.Taken) {
		if p, err = h.givenBack(ctx, p); err == nil {
			m, raw, err = h.remembered.read(ctx, p.DiscoveryDomainID)
		}
		if err != nil {
			return Result{}, err
		}
	}
	if p.Status == apiclient.StatusPending && !p.Prove && !m.tookStatus() {
		return h.notOurs(ctx, p)
	}
	verdict, err := h.cfg.DNS.Look(ctx, p.VerificationHost, p.VerificationTXT)
	if err != nil {
		return Result{}, err
	}
	if verdict.State == dnscheck.Absent && p.Status == apiclient.StatusVerified {
		if p, verdict, err = h.sure(ctx, p, verdict); err != nil {
			return Result{}, err
		}
	}
	if p.Status == apiclient.StatusPending {
		return h.pending(ctx, job, p, m, raw, verdict)
	}
	return h.verified(ctx, p, m, raw, verdict)
}

// errGone settles the row of a domain that has left its organization, or whose
// organization is gone.
var errGone = &settledError{Unchanged, "the domain was deleted after the sweep found it"}

// get reads the record, and forgets a domain that there is not.
func (h *recheck) get(ctx context.Context, p RecheckPayload) (RecheckPayload, error) {
	d, err := h.cfg.API.DiscoveryDomain(ctx, p.OrganizationID, p.DiscoveryDomainID)
	if isGone(err) {
		return p, h.gone(ctx, p)
	}
	if err != nil {
		return p, err
	}
	p.Domain, p.VerificationHost, p.VerificationTXT = d.Domain, d.VerificationHost, d.VerificationTXT
	p.Status, p.UseForOrganizationDiscovery = d.Status, d.UseForOrganizationDiscovery
	if err := errors.Join(p.checkRecord(), below(d)); err != nil {
		return p, refused("the record cannot be checked: %v", err)
	}
	return p, nil
}

// gone forgets a domain that there is not, unless something is to be given back to it:
// one answer may be of a server that is behind, and the next sweep tells.
func (h *recheck) gone(ctx context.Context, p RecheckPayload) error {
	m, _, err := h.remembered.read(ctx, p.DiscoveryDomainID)
	if err == nil && m.Taken == nil && m.Acting == nil {
		err = h.remembered.forget(ctx, p.DiscoveryDomainID)
	}
	if err != nil {
		return err
	}
	return errGone
}

// contradicts says whether the record reads as if what was taken away had been given
// back, or more had been taken.
func (p RecheckPayload) contradicts(taken Acting) bool {
	if taken.Action == ActPending {
		return p.Status == apiclient.StatusVerified
	}
	return p.Status != apiclient.StatusVerified || p.UseForOrganizationDiscovery != nil && *p.UseForOrganizationDiscovery
}

// givenBack finds out whether what we took away has been changed by somebody else: the
// walk may have read the record before we acted, so it is read once more. Then the
// domain is no more ours to give back.
func (h *recheck) givenBack(ctx context.Context, p RecheckPayload) (RecheckPayload, error) {
	p, err := h.get(ctx, p)
	if err != nil {
		return p, err
	}
	now := h.cfg.Now()
	_, err = h.remembered.change(ctx, p.DiscoveryDomainID, func(m Memory) (Memory, []string) {
		if m.Taken == nil || !p.contradicts(*m.Taken) || now.Sub(m.Taken.landedAt()) < young {
			return m, nil
		}
		m = m.clone()
		m.Taken = nil
		m.note(now, "changed by others", "someone else has changed what the sweep had taken away")
		return m, nil
	})
	return p, err
}

// notOurs leaves a pending domain alone that we did not set to that. What was seen of
// it while it was verified counts no more.
func (h *recheck) notOurs(ctx context.Context, p RecheckPayload) (Result, error) {
	now := h.cfg.Now()
	_, err := h.remembered.change(ctx, p.DiscoveryDomainID, func(m Memory) (Memory, []string) {
		if m.Absence == nil || m.Acting != nil {
			return m, nil
		}
		m = m.clone()
		m.Absence = nil
		m.note(now, "pending", "someone else has set it to pending")
		return m, nil
	})
	return unchanged("pending, but not set by orgops: left unchanged"), err
}

// sure makes sure of an absence before it is recorded: that host and token are the
// record's still. Where they are others, it is those that are looked for.
func (h *recheck) sure(ctx context.Context, p RecheckPayload, v dnscheck.Verdict) (RecheckPayload, dnscheck.Verdict, error) {
	before := tokenOf(p.VerificationHost, p.VerificationTXT)
	p, err := h.get(ctx, p)
	if err != nil || before == tokenOf(p.VerificationHost, p.VerificationTXT) {
		return p, v, err
	}
	v, err = h.cfg.DNS.Look(ctx, p.VerificationHost, p.VerificationTXT)
	return p, v, err
}

// pending goes on with a pending domain that was looked at.
func (h *recheck) pending(ctx context.Context, job Job, p RecheckPayload, m Memory, raw []byte, v dnscheck.Verdict) (Result, error) {
	switch {
	case !p.Prove && !m.tookStatus(): // it has become pending since the walk
		return h.notOurs(ctx, p)
	case v.State == dnscheck.Present:
		return h.handOn(ctx, job, p, target{p.VerificationHost, p.VerificationTXT}, p.knownFlag(m))
	case m.tookStatus():
		if _, err := h.record(ctx, p, m, raw, v); err != nil {
			return Result{}, err
		}
	}
	return unchanged("pending; " + said(v)), nil
}

// said is an observation as a row's reason.
func said(v dnscheck.Verdict) string {
	if v.State == dnscheck.Present {
		return v.State.String()
	}
	return v.State.String() + ": " + v.Sentence()
}

// verified records what was seen of a verified domain.
func (h *recheck) verified(ctx context.Context, p RecheckPayload, m Memory, raw []byte, v dnscheck.Verdict) (Result, error) {
	m, err := h.record(ctx, p, m, raw, v)
	if err != nil {
		return Result{}, err
	}
	if v.State == dnscheck.Present && m.Taken != nil && !m.tookStatus() {
		if err := enqueue(ctx, h.cfg.Enqueuer, p.giveBack(h.cfg.Now())); err != nil {
			return Result{}, fmt.Errorf("enqueue its restoration: %w", err)
		}
	}
	return unchanged(said(v)), nil
}

// record remembers what was seen and, where something is the matter, has the domain
// looked at again before the next sweep.
func (h *recheck) record(ctx context.Context, p RecheckPayload, m Memory, raw []byte, v dnscheck.Verdict) (Memory, error) {
	s := p.sighted(v, h.cfg.Now())
	if s.operator == "" && m.Operator == "" && v.State == dnscheck.Absent {
		var err error
		if s.operator, err = h.cfg.DNS.Operator(ctx, p.VerificationHost); err != nil {
			return m, err
		}
	}
	m, err := h.remembered.changeRead(ctx, p.DiscoveryDomainID, m, raw, func(m Memory) (Memory, []string) { return m.seen(s) })
	if err != nil || !m.attended() {
		return m, err
	}
	if err := enqueue(ctx, h.cfg.Enqueuer, p.relook(h.cfg.Now())); err != nil {
		return m, fmt.Errorf("enqueue the check between two sweeps: %w", err)
	}
	return m, nil
}

func (p RecheckPayload) sighted(v dnscheck.Verdict, at time.Time) sighted {
	return sighted{
		id: p.DiscoveryDomainID, organization: p.OrganizationID, domain: p.Domain, token: tokenOf(p.VerificationHost, p.VerificationTXT),
		tick: p.Tick, verdict: v, operator: v.Operator, at: at, flagOmitted: p.UseForOrganizationDiscovery == nil,
	}
}

// knownFlag returns the flag of a domain that we have set to pending: as the sweep read it
// or, where the record omits it, as it was read before that. nil: it is not known.
func (p RecheckPayload) knownFlag(m Memory) *bool {
	switch {
	case !m.tookStatus():
		return nil
	case p.UseForOrganizationDiscovery == nil:
		return m.Taken.Flag
	}
	return p.UseForOrganizationDiscovery
}

// handOn enqueues the confirm of the row, with what was seen, and with the flag for a
// record that omits it.
func (h *recheck) handOn(ctx context.Context, job Job, p RecheckPayload, at target, flag *bool) (Result, error) {
	const provenWithin = time.Hour // its confirm does not go back to looking
	e := p.Envelope
	e.Swept = true
	err := enqueue(ctx, h.cfg.Enqueuer, spec{
		typ: TypeConfirm, id: confirmTaskID(job.TaskID), queue: APIQueue(job.Tenant, Normal),
		payload: VerifyPayload{
			Envelope: e, OrganizationID: p.OrganizationID, DiscoveryDomainID: p.DiscoveryDomainID,
			VerificationHost: at.Host, VerificationTXT: at.TXT, UseForOrganizationDiscovery: flag, GiveUpAt: h.cfg.Now().UTC().Add(provenWithin),
		},
	})
	if err != nil {
		return Result{}, fmt.Errorf("enqueue confirm: %w", err)
	}
	return Result{Outcome: HandedOn, Detail: "the token is there; its proof is next"}, nil
}
