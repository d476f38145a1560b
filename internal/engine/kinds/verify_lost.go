package kinds

import (
	"context"
	"errors"
	"fmt"
	"time"

	"orgops/apiclient"
	"orgops/dnscheck"
	"orgops/internal/engine"
	"orgops/internal/ledger"
)

// verifyIntent is the form in which the intent of a PATCH to verified is stored.
type verifyIntent struct {
	// Flag is the flag that is sent; nil: none.
	Flag *bool `json:"flag,omitempty"`
	// Proof is the evidence of the proof, with the record.
	Proof []byte `json:"proof"`
	// Reverting says that the PATCH is being reverted: the time of the intent is that of
	// the request to do so.
	Reverting bool `json:"reverting,omitempty"`
	// Reverted says that the API has answered that request. Reads may show the domain as
	// verified for a while.
	Reverted bool `json:"reverted,omitempty"`

	at       time.Time // when it was stored, if an earlier execution did
	evidence Evidence  // of Proof
}

// formerIntent returns the row's intent; nil if there is none.
func formerIntent(row *engine.Row) (*verifyIntent, error) {
	if row.Intent == nil {
		return nil, nil
	}
	in := &verifyIntent{at: row.Intent.At}
	if err := readIntent(row, in); err != nil {
		return nil, err
	}
	var err error
	in.evidence, err = ReadEvidence(in.Proof)
	if err == nil && in.evidence.Compared == nil {
		err = errors.New("it has no proof")
	}
	if err != nil {
		return nil, &engine.UnknownError{What: "the row's intent (" + err.Error() + ")"}
	}
	return in, nil
}

// newIntent returns the intent of a PATCH that a proof permits.
func (v *verification) newIntent(d apiclient.DiscoveryDomain, flag *bool, verdict dnscheck.Verdict, span *ThinSpan) (*verifyIntent, error) {
	proof := proofEvidence(verdict, newCompared(v.want.OrganizationID, d), v.x.Now(), span.proof())
	packed, err := packProof(proof)
	return &verifyIntent{Flag: flag, Proof: packed, evidence: proof}, err
}

// proves reports whether the record is the one that was proven.
func (in *verifyIntent) proves(d apiclient.DiscoveryDomain) bool { return in.evidence.Compared.is(d) }

// unlessPending keeps a refusal from settling a row of which an earlier PATCH may have
// landed: the record is read first. One that is gone needs no read.
func (v *verification) unlessPending(err error) error {
	if v.former == nil || isNotFound(err) {
		return err
	}
	return retryRefused(err)
}

// resume continues a row of which an earlier execution may have sent the PATCH.
func (v *verification) resume(ctx context.Context) (ledger.Result, error) {
	if v.former.Reverted {
		return v.restart(ctx)
	}
	if v.cfg.NoReads {
		return v.resumeUnread(ctx)
	}
	d, err := v.readYoung(apiclient.BeforeSending(ctx, v.stamp))
	switch {
	case err != nil:
		return ledger.Result{}, v.unlessPending(err)
	case v.former.Reverting:
		return ledger.Result{}, v.revertAgain(ctx, d)
	case !v.former.proves(d):
		return ledger.Result{}, v.correct(ctx, d)
	case d.Status == apiclient.StatusVerified && !differ(v.former.Flag, d.UseForOrganizationDiscovery):
		return v.settle(ctx, v.former)
	case v.x.FinishOnly:
		return v.abandon(ctx, d)
	}
	if left := v.inFlight(v.former.at); left > 0 {
		return ledger.Result{}, engine.Later("a PATCH had no answer; the next one waits until it cannot land any more", left)
	}
	if err := v.provable(d); err != nil {
		return ledger.Result{}, err
	}
	if d.Status == apiclient.StatusVerified {
		d.UseForOrganizationDiscovery = v.former.Flag // as it was before the PATCH
	}
	v.state.Record = recordOf(d)
	return v.prove(ctx, d)
}

// correct reverts the former PATCH if the record is not the one that was proven. A record
// that is pending may be older than the PATCH.
func (v *verification) correct(ctx context.Context, d apiclient.DiscoveryDomain) error {
	if again := v.readAgain(v.former.at); d.Status != apiclient.StatusVerified && again > 0 {
		return engine.Later("the record differs from the proven one; the result of the PATCH is read again", again)
	}
	if err := v.revert(ctx, d); err != nil {
		return err
	}
	return engine.Later("the record was read as it was before; the domain is proven again", time.Second)
}

// abandon ends a row of a stopped run whose record is the proven one and not as the row
// asks, once a read would show the PATCH.
func (v *verification) abandon(ctx context.Context, d apiclient.DiscoveryDomain) (ledger.Result, error) {
	if again := v.readAgain(v.former.at); again > 0 {
		return ledger.Result{}, engine.Later("the run is stopped; the record is read until it shows the result of a PATCH without an answer", again)
	}
	cancelled := v.x.Cancelled
	switch flag := d.UseForOrganizationDiscovery; {
	case d.Status != apiclient.StatusVerified && cancelled:
		return ledger.Result{Outcome: ledger.Cancelled, Detail: "the run was cancelled; a PATCH was under way, and the domain is not verified"}, nil
	case d.Status != apiclient.StatusVerified:
		if err := v.x.Withdraw(ctx, v.row); err != nil {
			return ledger.Result{}, err
		}
		return ledger.Result{}, engine.ErrStopped
	case !cancelled:
		return ledger.Result{}, engine.Later("the run is stopped; the domain is verified, its use_for_organization_discovery is set once the run goes on", time.Minute)
	case !v.bySweep() && differ(v.want.UseForOrganizationDiscovery, flag):
		return ledger.Result{}, engine.Refuse("the run was cancelled; the domain is verified, but its use_for_organization_discovery is %t and was not set any more: retry the row", *flag)
	}
	return v.settle(ctx, v.former)
}

// resumeUnread is resume if the credentials may not read: only a PATCH makes the state of
// the domain sure.
func (v *verification) resumeUnread(ctx context.Context) (ledger.Result, error) {
	d, err := v.claimed()
	if err != nil {
		return ledger.Result{}, v.unlessPending(err)
	}
	if v.former.Reverting {
		return ledger.Result{}, v.revertAgain(ctx, d)
	}
	if left := v.inFlight(v.former.at); left > 0 {
		return ledger.Result{}, engine.Later("a PATCH had no answer; the next request waits until it cannot land any more", left)
	}
	if !v.x.FinishOnly {
		v.state.Record = recordOf(d)
		return v.prove(ctx, d)
	}
	if !v.x.Cancelled {
		return ledger.Result{}, engine.Later("the run is stopped; a PATCH without an answer is repeated once the run goes on", time.Minute)
	}
	err = v.revert(ctx, d)
	return ledger.Result{Outcome: ledger.Cancelled, Detail: "the run was cancelled; a PATCH to verified was under way, and the domain was set back to pending"}, err
}

// revertAgain reverts a PATCH of which an earlier execution was about to do so, whatever
// the record reads, which may be old. That execution's request may still be under way.
func (v *verification) revertAgain(ctx context.Context, d apiclient.DiscoveryDomain) error {
	if left := v.inFlight(v.former.at); left > 0 {
		return engine.Later("the domain is being set back to pending; the next request waits until the last one cannot land any more", left)
	}
	if err := v.revert(ctx, d); err != nil {
		return err
	}
	return engine.Later("the domain was set back to pending, and is proven again", time.Second)
}

// restart checks a row again whose PATCH was reverted, once reads show that: until then it
// would seem to be verified by another client.
func (v *verification) restart(ctx context.Context) (ledger.Result, error) {
	if !v.cfg.NoReads {
		d, err := v.readYoung(ctx)
		if err != nil {
			return ledger.Result{}, v.unlessPending(err)
		}
		if again := v.readAgain(v.former.at); d.Status == apiclient.StatusVerified && again > 0 {
			return ledger.Result{}, engine.Later("the domain was set back to pending; the record is read until it shows that", again)
		}
	}
	if err := v.x.Withdraw(ctx, v.row); err != nil {
		return ledger.Result{}, err
	}
	if v.x.FinishOnly {
		return ledger.Result{}, engine.ErrStopped
	}
	v.former = nil
	if v.swept {
		return v.confirm(ctx)
	}
	return v.check(ctx)
}

// errReverted settles a row whose domain was set back to pending.
var errReverted = engine.Refuse("the tenant's record changed while it was being verified: its host or token is no longer the one that was proven; it was set back to pending")

// revert sets the domain to pending. While the former PATCH may still land it leaves the
// row to a later execution, which reverts it once more.
func (v *verification) revert(ctx context.Context, d apiclient.DiscoveryDomain) error {
	left := v.inFlight(v.former.at)
	reverting := *v.former
	reverting.Reverting = true
	stored := false
	sending := apiclient.BeforeSending(ctx, func(ctx context.Context) error {
		err := amend(ctx, v.x, v.row, reverting)
		stored = stored || err == nil
		return err
	})
	answer, err := v.setPending(sending, v.former, d)
	switch {
	case err != nil && stored && engine.NoEffect(err):
		return v.notReverted(v.notSent(ctx, err))
	case err != nil:
		return v.notReverted(err)
	case left > 0:
		return engine.Later("the domain was set back to pending; a PATCH without an answer may still land", left)
	case !v.former.proves(answer):
		return errReverted
	}
	reverting.Reverted = true
	return amend(ctx, v.x, v.row, reverting)
}

// notReverted returns the error of a revert. A refusal leaves the intent to the next
// execution too.
func (v *verification) notReverted(err error) error {
	return retryRefused(fmt.Errorf("revert an unproven verification: %w", err))
}

// setPending sends the PATCH that reverts one. d is the record, or the answer of a PATCH.
func (v *verification) setPending(ctx context.Context, in *verifyIntent, d apiclient.DiscoveryDomain) (apiclient.DiscoveryDomain, error) {
	flag := d.UseForOrganizationDiscovery
	if flag == nil {
		flag = in.Flag
	}
	return v.api.UpdateDiscoveryDomain(ctx, v.organization, v.domain,
		apiclient.DiscoveryDomainUpdate{Status: new(apiclient.StatusPending), UseForOrganizationDiscovery: flag})
}

// revertTimeout bounds the revert of an execution's own PATCH, which goes out even if the
// execution's time is up.
const revertTimeout = time.Minute

// disown reverts a PATCH whose answer names a host or token that was not proven. It does so even if
// another execution has the row: that one has read an older record then.
func (v *verification) disown(ctx context.Context, sent *verifyIntent, answer apiclient.DiscoveryDomain) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), revertTimeout)
	defer cancel()
	sent.Reverting = true
	lost := amend(ctx, v.x, v.row, sent)
	_, err := v.setPending(apiclient.BeforeSending(ctx, nil), sent, answer)
	log := v.cfg.Logger.With("run", v.x.Run, "segment", v.x.Segment.Number, "row", int(v.row.Number),
		"organization_id", v.want.OrganizationID, "discovery_domain_id", v.want.DiscoveryDomainID)
	if err != nil {
		log.ErrorContext(ctx, "unproven verification not reverted: unless the row reverts it, set the domain to pending by hand", "error", err)
		return v.notReverted(err)
	}
	log.ErrorContext(ctx, "domain set back to pending: the answer to its PATCH names a domain, host or token that was not proven")
	if lost != nil {
		return lost
	}
	return errReverted
}
