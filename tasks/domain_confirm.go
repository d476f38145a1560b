package tasks

// A confirm may be killed anywhere. Before its PATCH it writes down what it
// is about to do; a second run that finds this reads the record and either
// settles what has happened, or takes it back. PATCH is idempotent
// (specification 4.1), so doing it twice is doing it once. After a cancel it
// finds that out, and PATCHes nothing to verified.
//
// Of two executions at a time, the first taken for dead and not, one alone may say
// what has come of it: that the PATCH is answered for, or that it is taken back, is
// written down instead of the intent, by whoever finds it as he has read it.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

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
	At     time.Time              `json:"at"`
	// Proof is the evidence of the proof that the PATCH goes by: see packProof.
	Proof []byte `json:"proof,omitempty"`
	// Landed says that the domain was found to be verified by this; it is not taken
	// back any more.
	Landed bool `json:"landed,omitempty"`
	// Undoing is since when it is being taken back, zero if it is not.
	Undoing time.Time `json:"undoing,omitzero"`
}

const keptIntent = "intent"

type confirm struct {
	cfg     Config
	records records
}

func (h *confirm) process(ctx context.Context, job Job, p VerifyPayload) (Result, error) {
	r, err := h.carryOut(ctx, job, p)
	if err != nil || r.Outcome != Done {
		return r, err
	}
	if err := h.landed(ctx, job); err != nil {
		return Result{}, err
	}
	in, err := readIntent(job.known(keptIntent))
	if err != nil {
		return Result{}, err
	}
	r.Evidence = in.Proof
	h.audit(ctx, job, p, *in)
	return r, h.tell(ctx, job, p, *in)
}

// audit logs that the domain was verified, and by which proof. An execution that is killed
// before the row is settled leaves another line to the next one, about the same proof.
func (h *confirm) audit(ctx context.Context, job Job, p VerifyPayload, in intent) {
	proof, err := ReadEvidence(in.Proof)
	if err != nil {
		h.cfg.Logger.WarnContext(ctx, "evidence of a verified domain not readable", "run", job.Run, "item", *job.Item, "error", err)
	}
	log := h.cfg.Logger
	if thin := proof.ThinProof; thin != nil {
		log = log.With("thin_since", thin.Since, "thin_checks", thin.Checks)
	}
	log.InfoContext(ctx, "audit", "event", "domain verified", "tenant", job.Tenant, "run", job.Run, "item", *job.Item,
		"organization_id", p.OrganizationID, "discovery_domain_id", p.DiscoveryDomainID, "domain", in.Domain, "verification_host", in.Host,
		"proven_at", proof.At, "basis", proof.Basis, "quorum", proof.Quorum, "resolvers", proof.Resolvers,
		"operators", proof.seenBy(func(o dnscheck.ObservationRecord) string { return o.Operator }),
		"perspectives", proof.seenBy(func(o dnscheck.ObservationRecord) string { return o.Perspective }))
}

// landed writes down that the domain is verified. What is told and settled after that
// stays so: no other execution takes it back.
func (h *confirm) landed(ctx context.Context, job Job) error {
	in, err := readIntent(job.known(keptIntent))
	if err != nil || in.Landed {
		return err
	}
	in.Landed = true
	return h.rewrite(ctx, job, in)
}

// rewrite replaces the intent, unless another execution has.
func (h *confirm) rewrite(ctx context.Context, job Job, in *intent) error {
	against, err := amend(ctx, h.cfg.Ledger, job, keptIntent, in)
	switch against {
	case alreadySettled, begunMeanwhile, string(Superseded):
		return job.stop(against)
	}
	return err // a row that has begun is finished, whatever is said of its run
}

// tell tells that the domain was verified or, where we had taken that away, is again. It
// comes before the row is settled: an execution that is killed in between leaves it to
// the next one, which finds the same, and tells it under the same id.
func (h *confirm) tell(ctx context.Context, job Job, p VerifyPayload, in intent) error {
	if h.cfg.Memories != nil {
		if ours, err := h.restored(ctx, p, in); ours || err != nil {
			return err
		}
	}
	if h.cfg.Notices == nil {
		return nil
	}
	return h.cfg.Notices.Tell(ctx, Notice{
		ID: fmt.Sprintf("%s-%s-%d-%d", NoticeVerified, job.Run, *job.Item, in.At.Unix()), Type: NoticeVerified, At: second(in.At),
		Data: NoticeData{Tenant: job.Tenant, OrganizationID: p.OrganizationID, DiscoveryDomainID: p.DiscoveryDomainID, Domain: in.Domain, Run: job.Run},
	})
}

// TellVerified notifies of a domain that a row of the new core has verified, or remembers
// that it is verified again if a sweep had set it to pending. To repeat it is harmless.
func TellVerified(ctx context.Context, cfg Config, n Notice, proof []byte) error {
	if cfg.Memories != nil {
		h := &confirm{cfg: cfg}
		p := VerifyPayload{OrganizationID: n.Data.OrganizationID, DiscoveryDomainID: n.Data.DiscoveryDomainID}
		if ours, err := h.restored(ctx, p, intent{At: n.At, Proof: proof}); ours || err != nil {
			return err
		}
	}
	if cfg.Notices == nil {
		return nil
	}
	return cfg.Notices.Tell(ctx, n)
}

// restored remembers that a domain is verified again which we had set to pending.
func (h *confirm) restored(ctx context.Context, p VerifyPayload, in intent) (ours bool, err error) {
	_, err = remembered{h.cfg}.change(ctx, p.DiscoveryDomainID, func(m Memory) (Memory, []string) {
		took := m.tookStatus() && m.OrganizationID == p.OrganizationID
		ours = took || m.has(eventGivenBack, in.At) // that is: by an execution that was killed then
		if !took {
			return m, nil
		}
		m = m.clone()
		m.restored(sighted{id: p.DiscoveryDomainID, tick: m.Tick, at: in.At}, in.Proof)
		return m, nil
	})
	return ours, err
}

func (h *confirm) carryOut(ctx context.Context, job Job, p VerifyPayload) (Result, error) {
	if p.VerificationHost == "" || p.VerificationTXT == "" {
		return Result{}, invalid(fmt.Errorf("payload: a confirm without the host and token that were seen"))
	}
	former, err := begun(job)
	if err != nil {
		return Result{}, err
	}
	if former != nil && former.Landed {
		return Result{Outcome: Done}, nil
	}
	if h.cfg.TrustPayload {
		d := apiclient.DiscoveryDomain{
			ID: p.DiscoveryDomainID, VerificationHost: p.VerificationHost, VerificationTXT: p.VerificationTXT, Status: apiclient.StatusPending,
		}
		if former != nil && !former.Undoing.IsZero() {
			return Result{}, h.undoAgain(ctx, job, p, *former, d)
		}
		if job.ending {
			return Result{}, h.undoUnseen(ctx, job, p, former, d)
		}
		return h.proveAndPatch(ctx, job, p, former, d)
	}
	d, err := h.records.read(ctx, job, p.OrganizationID, p.DiscoveryDomainID)
	if err != nil {
		return Result{}, stillOpen(former, err)
	}
	if p.bySweep() && d.UseForOrganizationDiscovery != nil {
		p.UseForOrganizationDiscovery = nil // what a sweep brings is for a record that omits it
	}
	if former != nil && !former.Undoing.IsZero() {
		return Result{}, h.undoAgain(ctx, job, p, *former, d)
	}
	if former != nil {
		if done, err := h.finish(ctx, job, p, *former, d); done || err != nil {
			return Result{Outcome: Done}, err
		}
		if job.ending {
			return h.settleAsRead(p, *former, d)
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
	return h.proveAndPatch(ctx, job, p, former, d)
}

// begun is the intent of an earlier run, if one stands.
func begun(job Job) (*intent, error) {
	value := job.kept[keptIntent]
	if len(value) == 0 {
		return nil, nil
	}
	return readIntent(value)
}

func readIntent(value []byte) (*intent, error) {
	in := new(intent)
	if err := json.Unmarshal(value, in); err != nil {
		return nil, fmt.Errorf("intent stored for this row: %w", err)
	}
	return in, nil
}

// stillOpen keeps a refusal from settling a row of which a PATCH may have
// landed that nobody has looked at yet; a record that is gone needs no look.
func stillOpen(former *intent, err error) error {
	var answer *apiclient.Error
	gone := errors.As(err, &answer) && answer.Status == http.StatusNotFound
	if former != nil && !gone && Judge(err).Outcome == Refused {
		return transient(fmt.Errorf("read the result of the PATCH: %w", err))
	}
	return err
}

// finish ends what an earlier run has begun: done where the record is
// verified with what that run had proven. What is the proven record but not
// all that was sent starts anew. A record that names anything else is taken
// back; but where it reads pending the read may be older than that run's
// PATCH, so it is given time to catch up first.
func (h *confirm) finish(ctx context.Context, job Job, p VerifyPayload, former intent, d apiclient.DiscoveryDomain) (done bool, err error) {
	if former.proves(d) {
		return d.Status == apiclient.StatusVerified && !differ(former.Flag, d.UseForOrganizationDiscovery), nil
	}
	if d.Status != apiclient.StatusVerified && h.cfg.Now().Sub(former.At) < young {
		return false, transient(errors.New("the record differs from the proven one; the result of the PATCH is being read again"))
	}
	if err := h.setBack(ctx, job, p, former, d); err != nil {
		return false, err
	}
	return false, transient(errors.New("the record was read as it was before; it is proven again"))
}

// differ says whether two flags differ that were both said.
func differ(sent, got *bool) bool { return sent != nil && got != nil && *sent != *got }

// proves says whether the record is the one whose proof was made.
func (in intent) proves(d apiclient.DiscoveryDomain) bool {
	return (in.Domain == "" || sameName(in.Domain, d.Domain)) && sameName(in.Host, d.VerificationHost) && in.TXT == d.VerificationTXT
}

// proveAndPatch looks once more, with the quorum, and only then PATCHes.
// former is the intent of an earlier run, if one stands.
func (h *confirm) proveAndPatch(ctx context.Context, job Job, p VerifyPayload, former *intent, d apiclient.DiscoveryDomain) (Result, error) {
	update, err := h.update(p, d)
	if err != nil {
		return Result{}, stillOpen(former, err)
	}
	verdict, err := h.cfg.DNS.Prove(ctx, d.VerificationHost, d.VerificationTXT)
	if err != nil {
		return Result{}, err
	}
	thin := h.thin(job, p, former, d, verdict)
	if verdict.State != dnscheck.Present && !thin.accepted(h.cfg.ThinProofAfter) {
		if err := h.undo(ctx, job, p, former, d); err != nil {
			return Result{}, err
		}
		return h.back(ctx, job, p, d, verdict, thin)
	}
	if stopping(h.cfg.Stopping) {
		return Result{}, ErrStopping
	}
	in := intent{
		Domain: d.Domain, Host: d.VerificationHost, TXT: d.VerificationTXT, Former: d.Status,
		Flag: update.UseForOrganizationDiscovery, At: h.cfg.Now(),
	}
	if in.Proof, err = packProof(verdict, p.OrganizationID, d, in.At, thin.proof()); err != nil {
		return Result{}, err
	}
	if err := begin(ctx, h.cfg.Ledger, job, keptIntent, in); err != nil {
		return Result{}, err
	}
	answer, err := h.cfg.API.UpdateDiscoveryDomain(job.beginning(ctx), p.OrganizationID, p.DiscoveryDomainID, update)
	if err != nil {
		if noEffect(err) { // the next run must not answer for a PATCH that never was
			err = stillOpen(former, notBegun(ctx, h.cfg.Ledger, job, keptIntent, former, err))
		}
		return Result{}, err
	}
	return h.compare(ctx, job, p, in, answer)
}

// settleAsRead settles a row of a cancelled run whose PATCH may have landed, by
// the record, which is the proven one. What reads as it was before the PATCH is
// given time to catch up.
func (h *confirm) settleAsRead(p VerifyPayload, former intent, d apiclient.DiscoveryDomain) (Result, error) {
	if wait := former.At.Add(young).Sub(h.cfg.Now()); wait > 0 {
		const again = time.Minute // costs a request
		return Result{}, later("the run was cancelled; the result of the PATCH in progress is being read again", wholeSeconds(min(wait, again)))
	}
	if d.Status != apiclient.StatusVerified {
		return Result{}, cancelled("the run was cancelled; a PATCH was in progress, and the domain is not verified")
	}
	if differ(p.UseForOrganizationDiscovery, d.UseForOrganizationDiscovery) {
		return Result{}, refused("the run was cancelled; the domain is verified, but its use_for_organization_discovery is %t and was not set any more: retry the row", *d.UseForOrganizationDiscovery)
	}
	return Result{Outcome: Done}, nil
}

// undoUnseen settles a row of a cancelled run whose PATCH may have landed where
// nothing can be read: only a PATCH tells what the domain is.
func (h *confirm) undoUnseen(ctx context.Context, job Job, p VerifyPayload, former *intent, d apiclient.DiscoveryDomain) error {
	if err := h.undo(ctx, job, p, former, d); err != nil {
		return err
	}
	return cancelled("the run was cancelled; a PATCH to verified was in progress, and the domain was set back to pending")
}

// undo sets the domain to pending where an earlier run's PATCH may have landed
// and its proof can no longer be made: the row goes back to looking, and says
// no more than is so. That run may be alive, and its PATCH under way: it is given the
// time to come to an end. An execution that has meanwhile found that PATCH to have
// landed is right: then nothing is undone.
func (h *confirm) undo(ctx context.Context, job Job, p VerifyPayload, former *intent, d apiclient.DiscoveryDomain) error {
	if former == nil {
		return nil
	}
	if wait := former.At.Add(2 * h.cfg.RequestTimeout).Sub(h.cfg.Now()); wait > 0 {
		return later("the proof can no longer be made; a PATCH to verified may be in progress; it is awaited, then reverted", wholeSeconds(wait))
	}
	if err := h.setBack(ctx, job, p, *former, d); err != nil {
		return err
	}
	return h.rewrite(ctx, job, nil)
}

// undoAgain sets the domain to pending where an earlier run was about to, whatever the
// record reads like, which may be old. The row begins anew, but not while that run's
// PATCH may be under way: it could come behind the next one, and nobody would know.
func (h *confirm) undoAgain(ctx context.Context, job Job, p VerifyPayload, former intent, d apiclient.DiscoveryDomain) error {
	if err := h.setBack(ctx, job, p, former, d); err != nil {
		return err
	}
	if wait := former.Undoing.Add(2 * h.cfg.RequestTimeout).Sub(h.cfg.Now()); wait > 0 {
		return errors.Join(h.rewrite(ctx, job, &former),
			later("the domain was set back to pending; another such PATCH may be in progress; waiting for it", wholeSeconds(wait)))
	}
	if err := h.rewrite(ctx, job, nil); err != nil {
		return err
	}
	return later("the domain was set back to pending, and is proven again", time.Second)
}

// setBack writes down that the PATCH is being undone, and undoes it. Where that surely
// had no effect, nothing is being undone.
func (h *confirm) setBack(ctx context.Context, job Job, p VerifyPayload, former intent, d apiclient.DiscoveryDomain) error {
	undoing := former
	undoing.Undoing = h.cfg.Now()
	if err := h.rewrite(ctx, job, &undoing); err != nil {
		return err
	}
	answer, err := h.takeBack(apiclient.BeforeSending(ctx, h.stillMine(job)), p, former, d)
	switch {
	case err != nil && noEffect(err):
		return errors.Join(err, h.rewrite(ctx, job, &former))
	case err == nil && !former.proves(answer):
		return errTakenBack
	}
	return err
}

// stillMine asks, right before a request, whether what this execution has written down
// still stands: one that was frozen in between comes too late.
func (h *confirm) stillMine(job Job) func(context.Context) error {
	return func(ctx context.Context) error {
		settled, kept, _, err := h.cfg.Ledger.Standing(ctx, job.Run, job.kindOfType(TypeConfirm), job.Generation, job.Rows())
		switch {
		case err != nil:
			return err
		case allSettled(settled):
			return errNothingToDo
		case !job.knows(kept):
			return errBegunMeanwhile
		}
		return nil
	}
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
	if p.bySweep() && u.UseForOrganizationDiscovery == nil {
		return u, refused("the token is there, but the record has no use_for_organization_discovery, and to verify the domain could turn that on by the platform's default; " +
			"nothing was changed: set the flag explicitly once, or verify the domain by a row that brings use_for_organization_discovery")
	}
	return u, nil
}

// bySweep reports whether a sweep has found the row, or gives back the status by it.
func (p VerifyPayload) bySweep() bool { return p.Swept || restores(p.Run, p.DiscoveryDomainID) }

// compare holds the answer against what was proven.
func (h *confirm) compare(ctx context.Context, job Job, p VerifyPayload, in intent, answer apiclient.DiscoveryDomain) (Result, error) {
	if !in.proves(answer) || below(answer) != nil {
		return Result{}, h.disown(ctx, job, p, in, answer)
	}
	if answer.Status != apiclient.StatusVerified {
		return Result{}, transient(fmt.Errorf("the API answered the PATCH to verified with a record that is %.20q", string(answer.Status)))
	}
	if differ(in.Flag, answer.UseForOrganizationDiscovery) {
		return Result{}, transient(fmt.Errorf("the API answered the PATCH with use_for_organization_discovery %t instead of %t", *answer.UseForOrganizationDiscovery, *in.Flag))
	}
	return Result{Outcome: Done}, nil
}

// disown takes back a PATCH whose own answer names what nobody has proven. That is done
// whatever another execution says of the row, which has read an older record then; if
// it has not said so yet, it does not any more.
func (h *confirm) disown(ctx context.Context, job Job, p VerifyPayload, in intent, answer apiclient.DiscoveryDomain) error {
	undoing := in
	undoing.Undoing = h.cfg.Now()
	against := h.rewrite(ctx, job, &undoing)
	if _, err := h.takeBack(goingOn(ctx), p, in, answer); err != nil {
		return err
	}
	if against == nil {
		return errTakenBack
	}
	h.cfg.Logger.ErrorContext(ctx, "domain set back to pending: the response to its PATCH names a host or token that was not proven",
		"run", job.Run, "item", *job.Item, "organization_id", p.OrganizationID, "discovery_domain_id", p.DiscoveryDomainID)
	return against
}

// errTakenBack settles a row whose domain was set back to pending.
var errTakenBack = refused("the tenant's record changed while it was being verified: its host or token is no longer the one that was proven; it was set back to pending")

// takeBack PATCHes a domain to pending that is, or may be, verified with
// another host or token than the proven ones. Trouble on the way, a refusal
// too, leaves the intent for the next run.
func (h *confirm) takeBack(ctx context.Context, p VerifyPayload, in intent, d apiclient.DiscoveryDomain) (apiclient.DiscoveryDomain, error) {
	pending := apiclient.StatusPending
	flag := d.UseForOrganizationDiscovery
	if flag == nil {
		flag = in.Flag
	}
	answer, err := h.cfg.API.UpdateDiscoveryDomain(ctx, p.OrganizationID, p.DiscoveryDomainID, apiclient.DiscoveryDomainUpdate{
		Status: &pending, UseForOrganizationDiscovery: flag,
	})
	if err != nil {
		err = fmt.Errorf("take back an unproven verification: %w", err)
		if Judge(err).Outcome == Refused {
			return answer, transient(err)
		}
	}
	return answer, err
}

// back gives the row back to looking: the token is no longer to be seen, or
// not by enough of the resolvers. A row whose time is up ends here, for checks that see the
// token would go on for ever; but not while a thin proof that was in time may still be
// accepted.
func (h *confirm) back(ctx context.Context, job Job, p VerifyPayload, d apiclient.DiscoveryDomain, v dnscheck.Verdict, thin *thinSpan) (Result, error) {
	if job.Swept { // the next sweep looks again
		return unchanged("pending; the token was seen, but not proven: " + v.Sentence()), nil
	}
	left := leavings{verdict: v, confirmed: !h.cfg.TrustPayload, at: h.cfg.Now(), marks: map[string][]byte{}}
	if left.confirmed {
		if err := left.mark(keptRecord, recordOf(d)); err != nil {
			return Result{}, err
		}
	}
	after, err := untilNext(job, h.cfg, left.at, nextLook(left.at.Sub(job.CreatedAt), v.NegativeTTL)), error(nil)
	end := p.GiveUpAt.Add(moreForUnknown) // the check before the proof has seen the token
	switch {
	case thin != nil && thin.Since.Before(end):
		after, err = left.thinly(*thin, h.cfg.ThinProofAfter, after)
	case !left.at.Before(end):
		err = left.expire(ctx, h.cfg, job, p, new(recordOf(d)))
	}
	if err != nil {
		return Result{}, err
	}
	// Before it is enqueued, for whoever asks whether a task stands for the row.
	left.marks[keptNextLook] = []byte(nextLookTaskID(job.TaskID))
	after, err = left.keep(ctx, h.cfg.Ledger, job, after)
	if err != nil {
		return Result{}, err
	}
	if err := again(ctx, h.cfg, job, p, after); err != nil {
		return Result{}, err
	}
	return Result{Outcome: HandedOn, Detail: "checked again: " + left.sentence()}, nil
}
