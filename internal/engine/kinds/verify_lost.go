package kinds

// An execution that finds an intent reads the record. A domain that is verified with the
// proven host and token is done, by that proof, whoever verified it: nothing is sent. No
// request is sent and no row is settled otherwise before the former PATCH cannot land any
// more. A pending domain is then proven again; one that is verified with another host or
// token is set back to pending. A stopped run sends nothing but that.

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
	// Reverting says that the PATCH's answer named another host or token, and that the PATCH
	// is reverted whatever reads show: the time of the intent is that of the request to do so.
	Reverting bool `json:"reverting,omitempty"`

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
	d, err := v.read(apiclient.BeforeSending(ctx, v.stamp))
	left, again := v.inFlight(v.former.at), v.readAgain(v.former.at)
	if err != nil && (left == 0 || !isNotFound(err)) {
		return ledger.Result{}, v.unlessPending(err)
	}
	verified, proven := d.Status == apiclient.StatusVerified, v.former.proves(d)
	switch {
	case verified && proven && !v.former.Reverting:
		return v.settleRead(ctx, d)
	case left > 0:
		return ledger.Result{}, engine.Later("a PATCH had no answer; the next one waits until it cannot land any more", left)
	case v.former.Reverting, verified:
		return ledger.Result{}, v.revert(ctx, d)
	case again > 0 && (!proven || v.x.FinishOnly):
		return ledger.Result{}, engine.Later(unread, again)
	case !proven:
		return ledger.Result{}, engine.Refuse(changed + "it is pending")
	case v.x.FinishOnly:
		return ledger.Result{}, v.abandon(ctx)
	}
	v.state.Record = recordOf(d)
	return v.prove(ctx, d)
}

// unread is why a row stays open whose PATCH a read may not show yet.
const unread = "a PATCH had no answer; the record is read until it shows its result"

// settleRead settles the row of a domain that a read has shown as verified. A flag that
// another client has set meanwhile stays.
func (v *verification) settleRead(ctx context.Context, d apiclient.DiscoveryDomain) (ledger.Result, error) {
	result, err := v.settle(ctx, v.former)
	if sent, have := v.former.Flag, d.UseForOrganizationDiscovery; differ(sent, have) {
		result.Detail = fmt.Sprintf("use_for_organization_discovery was left at %t: a PATCH, whose answer was lost, "+
			"sent %t, but another client may have changed it since", *have, *sent)
	}
	return result, err
}

// abandon ends a row of a stopped run whose PATCH had no effect.
func (v *verification) abandon(ctx context.Context) error {
	if !v.x.Cancelled {
		return stopped(ctx, v.x, v.row)
	}
	return engine.Settle(ledger.Result{Outcome: ledger.Cancelled, Detail: "the run was cancelled; a PATCH was under way, and the domain is not verified"})
}

// disproven ends the intent of a row whose domain is no longer proven, once a read has shown
// that the PATCH had no effect.
func (v *verification) disproven(ctx context.Context) error {
	if again := v.readAgain(v.former.at); again > 0 {
		return engine.Later(unread, again)
	}
	return v.x.Withdraw(ctx, v.row)
}

const changed = "the tenant's record changed while it was being verified: " +
	"its host or token is no longer the one that was proven; "

// errReverted settles a row whose domain was set back to pending.
var errReverted = engine.Refuse(changed + "it was set back to pending")

// revert sets the domain to pending. If the answer is lost, a later execution reads the
// record.
func (v *verification) revert(ctx context.Context, d apiclient.DiscoveryDomain) error {
	sending := apiclient.BeforeSending(ctx, func(ctx context.Context) error { return amend(ctx, v.x, v.row, v.former) })
	if err := v.setPending(sending, v.former, d); err != nil {
		return notReverted(err)
	}
	return errReverted
}

// notReverted returns the error of a revert. A refusal leaves the intent to the next
// execution too.
func notReverted(err error) error {
	return retryRefused(fmt.Errorf("revert an unproven verification: %w", err))
}

// setPending sends the PATCH that reverts one. d is the record, or the answer of a PATCH.
func (v *verification) setPending(ctx context.Context, in *verifyIntent, d apiclient.DiscoveryDomain) error {
	flag := d.UseForOrganizationDiscovery
	if flag == nil {
		flag = in.Flag
	}
	_, err := v.api.UpdateDiscoveryDomain(ctx, v.organization, v.domain,
		apiclient.DiscoveryDomainUpdate{Status: new(apiclient.StatusPending), UseForOrganizationDiscovery: flag})
	return err
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
	err := v.setPending(apiclient.BeforeSending(ctx, nil), sent, answer)
	log := v.cfg.Logger.With("run", v.x.Run, "segment", v.x.Segment.Number, "row", int(v.row.Number),
		"organization_id", v.want.OrganizationID, "discovery_domain_id", v.want.DiscoveryDomainID)
	if err != nil {
		log.ErrorContext(ctx, "unproven verification not reverted: unless the row reverts it, set the domain to pending by hand", "error", err)
		return notReverted(err)
	}
	log.ErrorContext(ctx, "domain set back to pending: the answer to its PATCH names a domain, host or token that was not proven")
	if lost != nil {
		return lost
	}
	return errReverted
}
