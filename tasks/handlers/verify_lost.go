package handlers

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
func (v *verification) newIntent(d apiclient.DiscoveryDomain, flag *bool, verdict dnscheck.Verdict) (*verifyIntent, error) {
	proof := proofEvidence(verdict, newCompared(v.want.OrganizationID, d), v.x.Now())
	packed, err := proof.pack()
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

const changed = "the tenant's record changed while it was being verified: " +
	"its host or token is no longer the one that was proven; "

// resume continues a row of which an earlier execution may have sent the PATCH.
func (v *verification) resume(ctx context.Context) (result ledger.Result, err error) {
	d, err := v.read(apiclient.BeforeSending(ctx, v.stamp))
	left, again := v.inFlight(v.former.at), v.readAgain(v.former.at)
	if err != nil && (left == 0 || !isNotFound(err)) {
		return result, v.unlessPending(err)
	}
	verified, proven := d.Status == apiclient.StatusVerified, v.former.proves(d)
	switch {
	case verified && proven:
		result, err = v.settle(ctx, v.former)
		if sent, have := v.former.Flag, d.UseForOrganizationDiscovery; differ(sent, have) { // it stays
			result.Detail = fmt.Sprintf("use_for_organization_discovery was left at %t: a PATCH, whose answer was lost, "+
				"sent %t, but another client may have changed it since", *have, *sent)
		}
		return result, err
	case left > 0:
		return result, engine.Later("a PATCH had no answer; the next one waits until it cannot land any more", left)
	case verified:
		return result, v.revert(ctx, v.former, d, false)
	case again > 0 && (!proven || v.x.FinishOnly):
		return result, engine.Later(unread, again)
	case !proven:
		return result, engine.Refuse(changed + "it is pending")
	case v.x.Cancelled:
		return ledger.Result{Outcome: ledger.Cancelled, Detail: "the run was cancelled; a PATCH was under way, and the domain is not verified"}, nil
	case v.x.FinishOnly:
		return result, stopped(ctx, v.x, v.row)
	}
	v.state.Record = recordOf(d)
	return v.prove(ctx, d)
}

// revertTimeout bounds the revert of an execution's own PATCH, which goes out even if the
// execution's time is up.
const revertTimeout = time.Minute

// revert sets the domain back to pending, since a read, or the answer of the execution's own
// PATCH, shows it as verified with a host or token that was not proven. For an answer that is
// done even if another execution has the row: that one has read an older record then. If the
// revert fails, the next execution reads the record.
func (v *verification) revert(ctx context.Context, in *verifyIntent, d apiclient.DiscoveryDomain, own bool) error {
	if own {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), revertTimeout)
		defer cancel()
	}
	flag := d.UseForOrganizationDiscovery
	if flag == nil {
		flag = in.Flag
	}
	var lost error
	sending := apiclient.BeforeSending(ctx, func(ctx context.Context) error {
		if lost = amend(ctx, v.x, v.row, in); own {
			return nil
		}
		return lost
	})
	_, err := v.api.UpdateDiscoveryDomain(sending, v.organization, v.domain,
		apiclient.DiscoveryDomainUpdate{Status: new(apiclient.StatusPending), UseForOrganizationDiscovery: flag})
	if lost != nil && !own {
		return lost
	}
	log := v.cfg.Logger.With("run", v.x.Run, "segment", v.x.Segment.Number, "row", int(v.row.Number),
		"organization_id", v.organization, "discovery_domain_id", v.domain)
	if err != nil {
		log.ErrorContext(ctx, "unproven verification not reverted: unless the row reverts it, set the domain to pending by hand", "error", err)
		return retryRefused(fmt.Errorf("revert an unproven verification: %w", err))
	}
	log.ErrorContext(ctx, "domain set back to pending: it was verified with a domain, host or token that was not proven")
	if lost != nil {
		return lost
	}
	return engine.Refuse(changed + "it was set back to pending")
}
