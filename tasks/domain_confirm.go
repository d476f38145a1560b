package tasks

// A confirm may be killed anywhere. Before its PATCH it writes down what it
// is about to do; a second run that finds this reads the record and either
// settles what has happened, or takes it back. PATCH is idempotent
// (specification 4.1), so doing it twice is doing it once.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"orgops/apiclient"
	"orgops/dnscheck"
)

// intent is what a confirm writes down before it PATCHes.
type intent struct {
	Domain string                 `json:"domain"`
	Host   string                 `json:"host"`
	TXT    string                 `json:"txt"`
	Former apiclient.DomainStatus `json:"former"`
	Flag   *bool                  `json:"flag,omitempty"` // nil: not sent
}

const keptIntent = "intent"

type confirm struct {
	cfg     Config
	records records
}

func (h *confirm) process(ctx context.Context, job Job, p VerifyPayload) (Result, error) {
	if p.VerificationHost == "" || p.VerificationTXT == "" {
		return Result{}, invalid(fmt.Errorf("payload: a confirm without the host and token that were seen"))
	}
	if h.cfg.TrustPayload {
		return h.proveAndPatch(ctx, job, p, apiclient.DiscoveryDomain{
			ID: p.DiscoveryDomainID, VerificationHost: p.VerificationHost, VerificationTXT: p.VerificationTXT, Status: apiclient.StatusPending,
		})
	}
	former, err := begun(job)
	if err != nil {
		return Result{}, err
	}
	d, err := h.records.read(ctx, job, p.OrganizationID, p.DiscoveryDomainID)
	if err != nil {
		return Result{}, stillOpen(former, err)
	}
	if former != nil {
		if done, err := h.finish(ctx, p, *former, d); done || err != nil {
			return Result{Outcome: Done}, err
		}
		if d.Status == apiclient.StatusVerified {
			d.UseForOrganizationDiscovery = former.Flag // as it was before that PATCH
		}
	}
	if err := h.records.matches(job, target{p.VerificationHost, p.VerificationTXT}, recordOf(d)); err != nil {
		return Result{}, err
	}
	if d.Status == apiclient.StatusVerified && former == nil {
		return Result{}, errVerified
	}
	if err := below(d); err != nil {
		return Result{}, err
	}
	return h.proveAndPatch(ctx, job, p, d)
}

// begun is the intent of an earlier run, if one stands.
func begun(job Job) (*intent, error) {
	value, ok := job.kept[keptIntent]
	if !ok {
		return nil, nil
	}
	in := new(intent)
	if err := json.Unmarshal(value, in); err != nil {
		return nil, fmt.Errorf("intent kept for this row: %w", err)
	}
	return in, nil
}

// stillOpen keeps a refusal from settling a row of which a PATCH may have
// landed that nobody has looked at yet; a record that is gone needs no look.
func stillOpen(former *intent, err error) error {
	var answer *apiclient.Error
	gone := errors.As(err, &answer) && answer.Status == http.StatusNotFound
	if former != nil && !gone && Judge(err).Outcome == Refused {
		return transient(fmt.Errorf("look what became of the PATCH: %w", err))
	}
	return err
}

// finish ends what an earlier run has begun: done where the record is
// verified with what that run had proven; taken back where it names anything
// else, also where it reads pending, for the read may be older than that
// run's PATCH. What is the proven record but not all that was sent starts anew.
func (h *confirm) finish(ctx context.Context, p VerifyPayload, former intent, d apiclient.DiscoveryDomain) (done bool, err error) {
	if former.proves(d) {
		return d.Status == apiclient.StatusVerified && !differ(former.Flag, d.UseForOrganizationDiscovery), nil
	}
	return false, h.takeBack(ctx, p, d)
}

// differ says whether two flags differ that were both said.
func differ(sent, got *bool) bool { return sent != nil && got != nil && *sent != *got }

// proves says whether the record is the one whose proof was made.
func (in intent) proves(d apiclient.DiscoveryDomain) bool {
	return (in.Domain == "" || sameName(in.Domain, d.Domain)) && sameName(in.Host, d.VerificationHost) && in.TXT == d.VerificationTXT
}

// proveAndPatch looks once more, with the quorum, and only then PATCHes.
func (h *confirm) proveAndPatch(ctx context.Context, job Job, p VerifyPayload, d apiclient.DiscoveryDomain) (Result, error) {
	update, err := h.update(p, d)
	if err != nil {
		return Result{}, err
	}
	verdict, err := h.cfg.DNS.Prove(ctx, d.VerificationHost, d.VerificationTXT)
	if err != nil {
		return Result{}, err
	}
	if verdict.State != dnscheck.Present {
		return h.back(ctx, job, p, d, verdict)
	}
	if stopping(h.cfg.Stopping) {
		return Result{}, ErrStopping
	}
	in := intent{Domain: d.Domain, Host: d.VerificationHost, TXT: d.VerificationTXT, Former: d.Status, Flag: update.UseForOrganizationDiscovery}
	value, err := json.Marshal(in)
	if err != nil {
		return Result{}, fmt.Errorf("intent: %w", err)
	}
	if err := h.cfg.Ledger.Keep(ctx, job.Run, *job.Item, keptIntent, value); err != nil {
		return Result{}, fmt.Errorf("write down the intent: %w", err)
	}
	answer, err := h.cfg.API.UpdateDiscoveryDomain(ctx, p.OrganizationID, p.DiscoveryDomainID, update)
	if err != nil {
		return Result{}, err
	}
	return h.compare(ctx, p, in, answer)
}

// update is the PATCH body. The flag is sent as it was read, because the
// specification gives it a default of true (4.1): a PATCH of the status alone
// could turn a false into a true.
func (h *confirm) update(p VerifyPayload, d apiclient.DiscoveryDomain) (apiclient.DiscoveryDomainUpdate, error) {
	verified := apiclient.StatusVerified
	u := apiclient.DiscoveryDomainUpdate{Status: &verified, UseForOrganizationDiscovery: d.UseForOrganizationDiscovery}
	if p.UseForOrganizationDiscovery != nil {
		u.UseForOrganizationDiscovery = p.UseForOrganizationDiscovery
	}
	if h.cfg.TrustPayload && u.UseForOrganizationDiscovery == nil {
		return u, refused("the tenant's settings trust the payload because its credentials may not read; then the row has to bring use_for_organization_discovery, or a false could turn into a true")
	}
	return u, nil
}

// compare holds the answer against what was proven.
func (h *confirm) compare(ctx context.Context, p VerifyPayload, in intent, answer apiclient.DiscoveryDomain) (Result, error) {
	if !in.proves(answer) || !dnscheck.Within(answer.VerificationHost, answer.Domain) {
		return Result{}, h.takeBack(ctx, p, answer)
	}
	if answer.Status != apiclient.StatusVerified {
		return Result{}, transient(fmt.Errorf("the API answered the PATCH to verified with a record that is %.20q", string(answer.Status)))
	}
	if differ(in.Flag, answer.UseForOrganizationDiscovery) {
		return Result{}, transient(fmt.Errorf("the API answered the PATCH with use_for_organization_discovery %t, sent was %t", *answer.UseForOrganizationDiscovery, *in.Flag))
	}
	return Result{Outcome: Done}, nil
}

// takeBack PATCHes a domain to pending that is verified with another host or
// token than the proven ones. The error is what settles the row; trouble on
// the way, a refusal too, leaves the intent for the next run.
func (h *confirm) takeBack(ctx context.Context, p VerifyPayload, d apiclient.DiscoveryDomain) error {
	pending := apiclient.StatusPending
	_, err := h.cfg.API.UpdateDiscoveryDomain(ctx, p.OrganizationID, p.DiscoveryDomainID, apiclient.DiscoveryDomainUpdate{
		Status: &pending, UseForOrganizationDiscovery: d.UseForOrganizationDiscovery,
	})
	if err != nil {
		err = fmt.Errorf("take back an unproven verification: %w", err)
		if Judge(err).Outcome == Refused {
			return transient(err)
		}
		return err
	}
	return refused("the tenant's record changed while it was being verified: its host or token is no longer the one that was proven; it was set back to pending")
}

// back gives the row back to looking: the token is no longer to be seen, or
// not by enough of the resolvers.
func (h *confirm) back(ctx context.Context, job Job, p VerifyPayload, d apiclient.DiscoveryDomain, v dnscheck.Verdict) (Result, error) {
	if !h.cfg.TrustPayload {
		if err := h.records.keep(ctx, job, recordOf(d)); err != nil {
			return Result{}, err
		}
	}
	now := h.cfg.Now()
	sentence := v.Sentence()
	if h.cfg.TrustPayload {
		sentence = v.Plain() // no record has confirmed the host
	}
	after := wholeSeconds(nextLook(now.Sub(job.CreatedAt), v.NegativeTTL))
	if err := h.cfg.Ledger.Note(ctx, job.Run, job.Rows(), string(NotYet)+": "+sentence, now.Add(after)); err != nil {
		return Result{}, err
	}
	if err := again(ctx, h.cfg.Enqueuer, job, p, after); err != nil {
		return Result{}, err
	}
	return Result{Outcome: HandedOn, Detail: "looked for again: " + sentence}, nil
}
