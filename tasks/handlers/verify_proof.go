package handlers

// A PATCH to verified is idempotent (specification 4.1), and is sent only by the execution
// that made the proof. Its intent, with the proof, is stored right before it is sent. An
// execution that finds an intent reads the record. A domain that is verified with the proven
// host and token is done, by that proof, whoever verified it: nothing is sent. No request is
// sent and no row is settled otherwise before the former PATCH cannot land any more. A pending
// domain is then proven again, unless its host or token has changed, by which the row is refused;
// one that is verified with another host or token is set back to pending. A stopped run sends
// nothing but that.
//
// Of two executions, of which the ledger takes the first for dead, only the second writes.
// The first asks the ledger right before each request, and compares the answer of its own
// PATCH even if it has lost the row meanwhile.

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
	"orgops/dnscheck/dnsname"
	"orgops/dnscheck/report"
	"orgops/internal/activity"
	"orgops/internal/discovery"
	"orgops/internal/engine"
	"orgops/internal/events"
	"orgops/internal/evidence"
	"orgops/internal/index"
	"orgops/internal/ledger"
	"orgops/internal/pace"
	"orgops/internal/sweep"
	"orgops/tasks"
)

// DNS is the part of [dnscheck.Checker] that verification needs.
type DNS interface {
	Check(ctx context.Context, host, token string) (dnscheck.Verdict, error)
	Prove(ctx context.Context, host, token string) (dnscheck.Verdict, error)
	Diagnose(ctx context.Context, host, domain, token string, v dnscheck.Verdict) (report.Diagnosis, error)
}

// Line is the part of the tenant's pace that verification needs.
type Line interface {
	// Ahead returns about how long a request of the class waits for its permit.
	Ahead(c pace.Class) time.Duration
}

// VerifyConfig configures the handler of [Verify].
type VerifyConfig struct {
	API  func(apiclient.Binding) Domains
	List func(apiclient.Binding) DomainList
	// Named returns the id that the index of names has of an organization's domain, whose record may
	// be another by now; "": none. nil: likewise.
	Named func(ctx context.Context, organization, name string) string
	DNS   DNS
	Line  Line
	// RequestTimeout is the client's: a request whose answer was lost may have its effect
	// until twice that time later.
	RequestTimeout time.Duration
	// GiveUp is how long a row of kind [Verify] waits for its token if its run does not say.
	GiveUp time.Duration
	// Places bounds the checks that are in progress at a time; nil: no limit.
	Places *Places
	// Notify is called with each event and the evidence of the row's result before the row is
	// settled, and again with the same ID if the execution is repeated. The event has no
	// tenant. token is the hash of a verified domain's token. nil: no notifications.
	Notify func(ctx context.Context, e events.Event, token string, evidence []byte) error
	// Notice is called with each record that a row without an intent has read: others may have taken a
	// verified domain back. nil: nothing is.
	Notice func(ctx context.Context, r sweep.RecordRead) error
	// Item returns the number of a row over all segments of its run, for the log line of a
	// verified domain. nil: the number in its segment.
	Item   func(context.Context, ledger.Segment, ledger.Row) (int64, error)
	Logger *slog.Logger // nil: none
}

// verifier is the part of an execution that proves a pending domain and verifies it: of a row of
// kind [Verify], and of one of kind [Recheck].
type verifier struct {
	change

	cfg    VerifyConfig
	flag   *bool            // of the row; nil: none
	named  named            // by the row
	undo   *tasks.Undo      // of the row; nil: it undoes nothing
	former *verifyIntent    // of an earlier execution; nil: none
	record discovery.Domain // to be proven
	// bySweep says that a sweep verifies the domain, or that it is restored: flag is then for
	// a record that omits it, and nothing is verified without one, since a PATCH without a flag
	// leaves it to the platform's default.
	bySweep bool
	// notProven ends the row of a record that was not proven, by the verdict.
	notProven func(context.Context, dnscheck.Verdict) *engine.Consequence
}

// verifyIntent is the form in which the intent of a PATCH to verified is stored.
type verifyIntent struct {
	// Flag is the flag that is sent; nil: none.
	Flag *bool `json:"flag,omitempty"`
	// Proof is the evidence of the proof, with the record.
	Proof []byte `json:"proof"`

	at       time.Time         // when it was stored, if an earlier execution did
	evidence evidence.Evidence // of Proof
}

// proves reports whether the record is the one that was proven.
func (in *verifyIntent) proves(d discovery.Domain) bool { return in.evidence.Compared.Proves(d) }

// newVerifier returns the verifier of a row's domain, with the row's intent.
func newVerifier(cfg VerifyConfig, x *engine.Execution, row *engine.Row,
	organization, domain string) (verifier, error) {
	v := verifier{cfg: cfg, change: change{
		x: x, row: row, api: cfg.API, timeout: cfg.RequestTimeout, settled: defaultSettled,
		organization: organization, domain: domain,
	}}
	if row.Intent == nil {
		return v, nil
	}
	v.former = &verifyIntent{at: row.Intent.At}
	if err := readIntent(row, v.former); err != nil {
		return v, err
	}
	var err error
	v.former.evidence, err = evidence.Read(v.former.Proof)
	if err == nil && v.former.evidence.Compared == nil {
		err = errors.New("it has no proof")
	}
	if err != nil {
		err = &engine.UnknownError{What: "the row's intent (" + err.Error() + ")"}
	}
	return v, err
}

// longestReadyWait is the time to wait for a permit from which on a row with a token waits in the
// ledger, where it holds no place of the worker.
const longestReadyWait = 2 * time.Second

// named has the members of a record that a row names; the others are empty.
type named struct{ domain, host, token string }

// differs refuses a row that names another record.
func (n named) differs(d discovery.Domain) error {
	const differs = "%s of the row differs from the tenant's record of this domain; nothing was changed"
	switch {
	case n.domain != "" && dnsname.Key(n.domain) != dnsname.Key(d.Name):
		return engine.Refuse("the row names domain %q, but discovery domain %q is %q; nothing was changed: "+
			"correct the row's domain or id", n.domain, d.ID, d.Name)
	case n.token != "" && n.token != d.TXT:
		return engine.Refuse(differs, "verification_txt")
	case n.host != "" && !dnsname.Same(n.host, d.Host):
		return engine.Refuse(differs, "verification_host")
	}
	return nil
}

// inLine leaves a row open whose token is there if it would wait long for its permit; nil: it would
// not.
func (v *verifier) inLine() *engine.Consequence {
	if v.cfg.Line.Ahead(pace.Finish) < longestReadyWait {
		return nil
	}
	return engine.Ready("the token is there; waiting for a permit to verify the domain")
}

// verifiedBefore is the detail of a row whose domain was verified already.
const verifiedBefore = "was verified before"

// unprovable settles the row of a record that is verified, and refuses one that cannot be proven,
// since its host does not lie below its domain; nil: it is pending, and can be. A status that the
// specification does not have counts as pending.
func unprovable(d discovery.Domain) *engine.Consequence {
	if d.IsVerified() {
		return engine.Settle(unchanged(verifiedBefore))
	}
	if err := tasks.CheckProvable(d.Name, d.Host); err != nil {
		return engine.Fail(engine.Refuse("%v", err))
	}
	return nil
}

// prove proves the record by a quorum, and only then has status verified sent.
func (v *verifier) prove(ctx context.Context) *engine.Consequence {
	// A record that sendVerified refuses is not proven in vain.
	if _, err := v.knownFlag(); err != nil {
		return engine.Fail(v.unlessPending(err))
	}

	verdict, err := v.cfg.DNS.Prove(ctx, v.record.Host, v.record.TXT)
	if err != nil {
		return engine.Fail(err)
	}
	if proof, ok := verdict.Proof(); ok {
		return v.sendVerified(ctx, proof)
	}

	// Not proven. A read has shown that the former PATCH had no effect, unless the read is behind.
	if v.former != nil {
		if again := v.readAgain(v.former.at); again > 0 {
			return engine.Later(unread, again)
		}
		if err := v.x.Withdraw(ctx, v.row); err != nil {
			return engine.Fail(err)
		}
	}
	return v.notProven(ctx, verdict)
}

// sendVerified sends status verified for the record that was proven, and settles the row. Rows that
// are fresh or resumed, those of a sweep, and those that restore a status all come here. The status
// is sent in one other way: by rows of `domains update` that name it, without a proof, if the
// tenant has allow_unproven (update.patch). TestWaysToVerified of the module finds a third.
//
// Each doubt leaves the domain as it is.
func (v *verifier) sendVerified(ctx context.Context, proof dnscheck.Proof) *engine.Consequence {
	d := v.record

	// The record is that of the row's domain, with the name, the host and the token that the row
	// names, if it does, and with the host and the token that were proven.
	if err := v.named.differs(d); err != nil {
		return engine.Fail(v.unlessPending(err))
	}
	if d.ID != v.domain || !proof.Of(d.Host, d.TXT) {
		return engine.Fail(
			fmt.Errorf("discovery domain %q is not set to verified: the proof is not of its host and token", v.domain))
	}

	// It is pending, and its host lies below its domain.
	if end := unprovable(d); end != nil {
		return end
	}

	// A change is undone only while the record is as that change has set it. An earlier PATCH of the
	// row had no effect then, unless the read is behind.
	if v.undo != nil && !v.undo.Holds(d) {
		if v.former != nil {
			if again := v.readAgain(v.former.at); again > 0 {
				return engine.Later(unread, again)
			}
		}
		return v.leaveAlone(v.undo.LeftAlone())
	}

	// Its flag is sent with the status: the row's, or else the record's. A record of a sweep or an
	// undo must have one; with another that has none no flag is sent.
	flag, err := v.knownFlag()
	if err != nil {
		return engine.Fail(v.unlessPending(err))
	}

	// The worker does not stop: no request begins then that another worker has to clear up.
	if v.x.Stopping() {
		return engine.Fail(engine.ErrStopping)
	}

	// The request, and the intent with its proof.
	sent := schema.DiscoveryDomainUpdate{Status: new(schema.StatusVerified), UseForOrganizationDiscovery: flag}
	proven := evidence.OfProof(proof.Verdict().Evidence(), d, v.x.Now())
	next := &verifyIntent{Flag: flag, evidence: proven}
	if next.Proof, err = proven.Pack(); err != nil {
		return engine.Fail(err)
	}

	v.row.Stage = ledger.StageReady // of a row that gets no permit
	answer, err := v.send(ctx, sent, func(ctx context.Context) error {
		// The permit is in hand, and the record is fresh: others may have changed it while the request
		// waited, or before.
		if !v.isFresh(v.readAt) {
			return errStale
		}
		// The intent is stored, by which the ledger is asked: it refuses a run that is paused or
		// cancelled, and a row that another execution has.
		return putIntent(ctx, v.x.Intend, v.row, next)
	}, v.notSent)
	if errors.Is(err, errStale) {
		return engine.Ready(errStale.Error() + "; it is read and proven again")
	}
	if err != nil {
		return engine.Fail(v.unlessPending(err))
	}

	// The answer has the domain, host and token that were proven. Otherwise they were changed
	// meanwhile, and a domain is verified that nobody has proven: it is set back to pending.
	if !next.proves(answer) {
		return engine.Fail(v.revert(ctx, next, answer, true))
	}

	// It has status and flag as they were sent. Otherwise the row is executed again.
	if err := carriedOut(sent, answer); err != nil {
		return engine.Fail(err)
	}
	return v.settle(ctx, next)
}

// knownFlag returns the flag to send with status verified; nil: none. The specification gives it a
// default of true (4.1), so that a PATCH without it could turn a false into a true: it is sent as
// it was read, unless the row brings one. A sweep brings one for a record without it only, and
// verifies nothing if there is none.
func (v *verifier) knownFlag() (*bool, error) {
	have := v.record.Flag
	if !v.bySweep {
		return cmp.Or(v.flag, have), nil
	}
	if flag := cmp.Or(have, v.flag); flag != nil {
		return flag, nil
	}
	return nil, engine.Refuse("the token is there, but the record has no use_for_organization_discovery, " +
		"and to verify the domain could turn that on by the platform's default; nothing was changed: set the flag explicitly once, " +
		"or verify the domain by a row that brings use_for_organization_discovery")
}

// unlessPending keeps a refusal from settling a row of which an earlier PATCH may have
// landed: the record is read first. One that is gone needs no read.
func (v *verifier) unlessPending(err error) error {
	if v.former == nil || isNotFound(err) {
		return err
	}
	return retryRefused(err)
}

const changed = "the tenant's record changed while it was being verified: " +
	"its host or token is no longer the one that was proven; "

// resume continues a row of which an earlier execution may have sent the PATCH.
func (v *verifier) resume(ctx context.Context) *engine.Consequence {
	// The record shows whether the former PATCH has landed. A domain that does not exist, while it may
	// still land, is one that the read has missed.
	d, err := v.read(ctx, v.x.Unfenced())
	left := v.inFlight(v.former.at)
	again := v.readAgain(v.former.at)
	if err != nil && (left == 0 || !isNotFound(err)) {
		return engine.Fail(v.unlessPending(err))
	}

	// A domain that is verified as it was proven is done, and one that is verified otherwise is set
	// back. No row is settled otherwise while the PATCH may land, or a read may be behind.
	verified := d.IsVerified()
	proven := v.former.proves(d)
	switch {
	case verified && proven:
		end := v.settle(ctx, v.former)
		sent := v.former.Flag
		have := d.Flag
		if end.Outcome == ledger.Done && differ(sent, have) { // it stays
			end.Reason = fmt.Sprintf("use_for_organization_discovery was left at %t: a PATCH, whose answer was lost, "+
				"sent %t, but another client may have changed it since", *have, *sent)
		}
		return end
	case left > 0:
		return engine.Later("a PATCH had no answer; the next one waits until it cannot land any more", left)
	case verified:
		return engine.Fail(v.revert(ctx, v.former, d, false))
	case again > 0 && (!proven || v.x.FinishOnly):
		return engine.Later(unread, again)
	case !proven:
		return engine.Fail(engine.Refuse(changed + "it is pending"))
	case v.x.Cancelled:
		const detail = "the run was cancelled; a PATCH was under way, and the domain is not verified"
		return engine.Settle(ledger.Result{Outcome: ledger.Cancelled, Detail: detail})
	case v.x.FinishOnly:
		return engine.Fail(stopped(ctx, v.x, v.row))
	}

	// It has had no effect: the record that was read is proven anew.
	v.record = d
	return v.prove(ctx)
}

// revertTimeout bounds the revert of an execution's own PATCH, which goes out even if the
// execution's time is up.
const revertTimeout = time.Minute

// revert sets the domain back to pending, since a read, or the answer of the execution's own
// PATCH, shows it as verified with a host or token that was not proven. For an answer that is
// done even if another execution has the row: that one has read an older record then. If the
// revert fails, the next execution reads the record.
func (v *verifier) revert(ctx context.Context, in *verifyIntent, d discovery.Domain, own bool) error {
	if own {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), revertTimeout)
		defer cancel()
	}

	// The intent that is stored says when this PATCH was sent. The execution's own is reverted also if
	// that fails: lost is why.
	flag := d.Flag
	if flag == nil {
		flag = in.Flag
	}
	var lost error
	_, err := v.api(v.x.Unfenced()).UpdateDiscoveryDomain(ctx, v.organization, v.domain,
		schema.DiscoveryDomainUpdate{Status: new(schema.StatusPending), UseForOrganizationDiscovery: flag},
		func(ctx context.Context) error {
			if lost = putIntent(ctx, v.x.Amend, v.row, in); own {
				return nil
			}
			return lost
		})
	if lost != nil && !own {
		return lost
	}

	// Both ends are for a person to read.
	log := v.cfg.Logger.With("run", v.x.Run, "segment", v.x.Segment.Number, "row", int(v.row.Number),
		"organization_id", v.organization, "discovery_domain_id", v.domain)
	if err != nil {
		log.ErrorContext(ctx,
			"unproven verification not reverted: unless the row reverts it, set the domain to pending by hand", "error", err)
		return retryRefused(fmt.Errorf("revert an unproven verification: %w", err))
	}
	log.ErrorContext(ctx, "domain set back to pending: it was verified with a domain, host or token that was not proven")
	if lost != nil {
		return lost
	}
	return engine.Refuse(changed + "it was set back to pending")
}

// settle settles the row of a domain that was verified. An execution that is killed before
// the row is settled leaves log line and event to the next one, for the same proof.
func (v *verifier) settle(ctx context.Context, in *verifyIntent) *engine.Consequence {
	e := in.evidence
	item := int64(v.row.Number)
	if v.cfg.Item != nil {
		var err error
		if item, err = v.cfg.Item(ctx, v.x.Segment, v.row.Number); err != nil {
			v.cfg.Logger.WarnContext(ctx, "number of a verified row not known", "run", v.x.Run, "segment", v.x.Segment.Number,
				"row", int(v.row.Number), "error", err)
			item = -1
		}
	}
	v.cfg.Logger.InfoContext(ctx, "audit", "event", "domain verified", "run", v.x.Run, "item", item,
		"organization_id", v.organization, "discovery_domain_id", v.domain,
		"domain", e.Compared.Domain, "verification_host", e.Compared.Host,
		"proven_at", e.At, "basis", e.Basis, "quorum", e.Quorum, "resolvers", e.Resolvers,
		"operators", e.SeenBy(func(o report.Observation) string { return o.Operator }),
		"perspectives", e.SeenBy(func(o report.Observation) string { return o.Perspective }))
	proven := e.Compared.DiscoveryDomain(v.organization, v.domain)
	proven.Status = schema.StatusVerified
	learn(v.x, v.row, index.Entry{Domain: proven, Read: v.x.Now(), State: dnscheck.Present.String()})
	verified := events.Event{Type: events.DomainVerified, At: e.At, Data: events.Data{Domain: e.Compared.Domain}}
	token := "" // one that is too long for the evidence is proven by a sweep
	if e.Compared.TXT != "" {
		token = sweep.HashToken(e.Compared.Host, e.Compared.TXT)
	}
	if err := v.notify(ctx, verified, token, in.Proof); err != nil {
		return fail(err)
	}
	return engine.Settle(ledger.Result{Outcome: ledger.Done, Evidence: in.Proof})
}

// notify notifies an event of the row. An execution that is repeated makes it with the same
// id, and a later run of the same run id with another.
func (v *verifier) notify(ctx context.Context, e events.Event, token string, evidence []byte) error {
	if v.cfg.Notify == nil {
		return nil
	}
	s := v.x.Segment
	e.ID = fmt.Sprintf("%s-%s-%s-%d-%d", e.Type, s.Run, s.Incarnation, s.Number, v.row.Number)
	e.Data.OrganizationID = v.organization
	e.Data.DiscoveryDomainID = v.domain
	e.Data.Run = string(s.Run)
	if err := v.cfg.Notify(ctx, e, token, evidence); err != nil {
		return fmt.Errorf("notify %s: %w", e.Type, err)
	}
	return nil
}

// NotifyStates returns a function for [VerifyConfig].Notify. The event of a domain that a
// revocation had set to pending says that it is restored, and by records it.
func NotifyStates(s *sweep.States, by activity.Author) func(context.Context, events.Event, string, []byte) error {
	return func(ctx context.Context, e events.Event, token string, evidence []byte) error {
		e.Data.Tenant = s.Tenant
		switch {
		case e.Type == events.DomainVerified:
			restored, err := s.Verified(ctx, e, token, evidence)
			if restored && err == nil {
				by.Record(ctx, activity.Entry{Tenant: s.Tenant, Run: e.Data.Run, Domain: e.Data.DiscoveryDomainID,
					Action: activity.Restored, Result: e.Data.Domain + ": " + sweep.SetPending.Undone()})
			}
			return err
		case s.Notifier == nil:
			return nil
		}
		return s.Notifier.Notify(ctx, e)
	}
}
