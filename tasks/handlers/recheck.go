package handlers

// A recheck checks a domain and stores the observation in the domain's state, once for each
// domain, token and tick. A second execution changes nothing there and settles the row as
// the first would have. It takes nothing away at the tenant. A verified domain whose token was
// never proven, since another client has verified it, is proven once. If a pending domain may be
// verified and its token is there, the row verifies it as one of kind [Verify] does
// (verify_proof.go), with its intents. If a domain is there again that a revocation has unrouted,
// the row submits a run that routes it, whose id is the same in a second execution.

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"log/slog"

	"orgops/apiclient/schema"
	"orgops/dnscheck"
	"orgops/dnscheck/report"
	"orgops/internal/discovery"
	"orgops/internal/engine"
	"orgops/internal/evidence"
	"orgops/internal/index"
	"orgops/internal/ledger"
	"orgops/internal/pace"
	"orgops/internal/stamp"
	"orgops/internal/sweep"
	"orgops/internal/untrusted"
	"orgops/tasks"
)

// Recheck is the kind of rows that check a discovery domain for a sweep.
const Recheck ledger.Kind = tasks.TypeRecheck

// ClassOfScan returns the class of the requests of a scan.
func ClassOfScan(ofSweep bool) pace.Class {
	if ofSweep {
		return pace.Sweep
	}
	return pace.Scan
}

// Operators is the part of [dnscheck.Checker] that finds the operators of name servers.
type Operators interface {
	Operator(ctx context.Context, host string) (string, error)
}

// RecheckConfig configures the handler of [Recheck].
type RecheckConfig struct {
	// Verify is the configuration of the same tenant's handler of [Verify], with the same
	// Places.
	Verify    VerifyConfig
	Tenant    ledger.Tenant
	States    *sweep.States
	Rules     sweep.Rules
	Operators Operators
	// Submit submits a run of kind [Revoke] that routes a domain again, unless it exists.
	Submit func(context.Context, OneRow) error
}

// NewRecheck returns the handler of [Recheck].
func NewRecheck(cfg RecheckConfig) engine.Handler {
	cfg.Verify.Logger = cmp.Or(cfg.Verify.Logger, slog.New(slog.DiscardHandler))
	return engine.One(func(ctx context.Context, x *engine.Execution, row *engine.Row) *engine.Consequence {
		r := &recheck{cfg: cfg, x: x, row: row}
		end := r.execute(ctx)
		if r.withdrawn != "" && (end.Outcome == ledger.Unchanged || end.Outcome == ledger.AtRisk) {
			end.Outcome = ledger.Withdrawn
			end.Reason = r.withdrawn
		}
		return end
	})
}

// recheck is one execution of a row.
type recheck struct {
	cfg RecheckConfig
	x   *engine.Execution
	row *engine.Row

	want tasks.RecheckRow
	// record is the domain's record as the scan has read it, or this execution.
	record discovery.Domain
	state  sweep.DomainState
	raw    []byte // of state; nil: none is stored
	// proven is the evidence of the proof of a verified domain, and unproven why there is none.
	proven   []byte
	unproven string
	// finding is the mistake with the absent record; nil: none was found, or looked for.
	finding *report.Finding
	// withdrawn is why others have taken the domain back; "": they have not.
	withdrawn string
}

func (r *recheck) execute(ctx context.Context) *engine.Consequence {
	if err := engine.Decode(r.row.Content, &r.want); err != nil {
		return engine.Fail(err)
	}
	r.record = r.want.Record()
	if r.row.Intent != nil { // the PATCH of an earlier execution
		v, err := r.verifier()
		if err != nil {
			return engine.Fail(err)
		}
		v.flag = v.former.Flag
		return v.resume(ctx)
	}
	if err := r.want.Validate(); err != nil {
		return engine.Fail(engine.Invalid(err))
	}
	if end := r.load(ctx); end != nil {
		return end
	}
	if end := r.notice(ctx); end != nil {
		return end
	}
	switch pending := !r.record.IsVerified(); {
	case pending && !r.mayVerify():
		return r.foreign(ctx)
	case pending && r.row.Stage == ledger.StageReady:
		return r.verify(ctx)
	}
	return r.check(ctx)
}

// load reads the domain's state, and returns nil unless that ends the row. If the record
// contradicts a revocation, or its request had no answer, the record is read again, since the scan
// may have read it before: a revocation that somebody else has changed is not undone.
func (r *recheck) load(ctx context.Context) *engine.Consequence {
	id := r.record.ID
	var err error
	if r.state, r.raw, err = r.cfg.States.Read(ctx, id); err != nil {
		return fail(err)
	}

	// A record that contradicts a revocation, or a request without an answer, is read.
	if revoked := r.state.Revoked; revoked == nil || (!revoked.DoneAt.IsZero() && !r.contradicts(*revoked)) {
		return nil
	}
	if end := r.read(ctx); end != nil {
		return end
	}

	// The result of the revocation, by the record, is stored once a read can no longer be behind.
	now := r.x.Now()
	if _, err = r.cfg.States.Change(ctx, id, func(s *sweep.DomainState) {
		switch revoked := s.Revoked; {
		case revoked == nil, now.Sub(revoked.EffectiveAt()) < max(defaultSettled, 2*r.cfg.Verify.RequestTimeout):
		case r.contradicts(*revoked) && revoked.DoneAt.IsZero():
			s.Revoked = nil
			s.Note(now, "not revoked", "the request of run "+revoked.Run+" had no effect")
		case r.contradicts(*revoked):
			s.Revoked = nil
			s.Note(now, "changed by others", "someone else has changed the value that was revoked")
		case revoked.DoneAt.IsZero() && (revoked.Set == sweep.SetPending || r.record.Flag != nil):
			s.RevokedAt(now)
		}
	}); err != nil {
		return fail(err)
	}
	if r.state, r.raw, err = r.cfg.States.Read(ctx, id); err != nil {
		return fail(err)
	}
	return nil
}

// notice reads the record if that of the scan says that others have taken the domain back: it may
// be older than a verification. It then compares the record that it has read, and returns nil
// unless that ends the row.
func (r *recheck) notice(ctx context.Context) *engine.Consequence {
	if !r.state.MayBeWithdrawn(r.recordRead(), r.x.Submitted) {
		return nil
	}
	return r.read(ctx)
}

// recordRead returns the record as states compare it.
func (r *recheck) recordRead() sweep.RecordRead {
	return sweep.RecordRead{Domain: r.record, At: r.x.Now()}
}

// contradicts reports whether the record reads as if the revocation had been undone, or more had
// been taken away.
func (r *recheck) contradicts(revoked sweep.Revocation) bool {
	verified := r.record.IsVerified()
	if revoked.Set == sweep.SetPending {
		return verified
	}
	routed := r.record.Flag != nil && *r.record.Flag
	return !verified || routed
}

// read reads the record, and returns nil unless that ends the row: that of a domain that does not
// exist is settled, and its state is deleted unless it is revoked. A single answer may be that of a
// server that is behind.
func (r *recheck) read(ctx context.Context) *engine.Consequence {
	id := r.record.ID
	client := r.cfg.Verify.API(withClass(r.x.Fenced(), pace.Sweep))
	record, err := client.DiscoveryDomain(ctx, r.record.OrganizationID, id)
	// There is none.
	if isNotFound(err) {
		r.withdrawn = ""
		gone := r.recordRead()
		gone.Gone = true
		why, err := r.cfg.States.Notice(ctx, gone, r.x.Submitted)
		if err != nil {
			return fail(err)
		}
		if why != "" {
			r.row.Subject = &ledger.Subject{ID: id, At: r.x.Now()}
			return engine.Settle(ledger.Result{Outcome: ledger.Withdrawn, Detail: why})
		}
		s, _, err := r.cfg.States.Read(ctx, id)
		if err == nil && s.Revoked == nil {
			r.row.Subject = &ledger.Subject{ID: id, At: r.x.Now()}
			err = r.cfg.States.DeleteState(ctx, id)
		}
		if err != nil {
			return fail(err)
		}
		return engine.Settle(unchanged("the domain was deleted after the sweep found it"))
	}
	if err != nil {
		return engine.Fail(err)
	}

	// The record as it is now, and whether others have taken it back.
	r.record = discovery.Of(r.record.OrganizationID, record)
	if err := tasks.CheckRecord(r.record); err != nil {
		return engine.Fail(engine.Refuse("the record cannot be checked: %v", err))
	}
	r.withdrawn, err = r.cfg.States.Notice(ctx, r.recordRead(), r.x.Submitted)
	if err == nil && r.withdrawn != "" {
		r.state, r.raw, err = r.cfg.States.Read(ctx, id)
	}
	if err != nil {
		return fail(err)
	}
	return nil
}

// mayVerify reports whether a pending domain is verified if its token is there.
func (r *recheck) mayVerify() bool { return r.want.Prove || r.state.IsPending() }

// pending describes the status of a record that is not verified.
func (r *recheck) pending() string {
	if r.record.Status == schema.StatusPending {
		return "pending"
	}
	return fmt.Sprintf("status %s, which counts as pending", untrusted.Value(r.record.Status))
}

// learn has the index of names store the record, with the result of a check; "": there was none.
func (r *recheck) learn(state string) {
	learn(r.x, r.row, index.Entry{Domain: r.record, Read: r.x.Now(), State: state})
}

// foreign settles the row of a domain that another client has set to pending. The checks
// made while it was verified count no more.
func (r *recheck) foreign(ctx context.Context) *engine.Consequence {
	now := r.x.Now()
	if r.row.Subject == nil {
		r.learn("")
	}
	_, err := r.cfg.States.Change(ctx, r.record.ID, func(s *sweep.DomainState) {
		if s.Absence != nil && s.Revoked == nil {
			s.Absence = nil
			s.Note(now, "pending", "someone else has set it to pending")
		}
	})
	if err != nil {
		return fail(err)
	}
	return engine.Settle(unchanged(r.pending() + ", but not set by orgops: left unchanged"))
}

// check checks the domain and stores the observation.
func (r *recheck) check(ctx context.Context) *engine.Consequence {
	v, end := r.query(ctx)
	if end != nil {
		return end
	}
	if v.State == dnscheck.Absent && r.record.IsVerified() {
		// Before an absence is stored: host and token are still the record's, or these are checked.
		before := r.tokenHash()
		if end := r.read(ctx); end != nil {
			return end
		}
		if before != r.tokenHash() {
			if v, end = r.query(ctx); end != nil {
				return end
			}
		}
	}
	r.learn(v.State.String())
	r.diagnose(ctx, v)
	described := v.State.String()
	switch {
	case r.unproven != "":
		described += ", but not proven: " + r.unproven
	case v.State != dnscheck.Present:
		described += ": " + r.sentence(v)
	}
	if !r.record.IsVerified() {
		switch {
		case !r.mayVerify(): // it was verified when it was scanned
			return r.foreign(ctx)
		case v.State == dnscheck.Present:
			return r.verify(ctx)
		case r.state.IsPending():
			if err := r.observe(ctx, v); err != nil {
				return fail(err)
			}
		}
		return engine.Settle(unchanged(r.pending() + "; " + described))
	}
	if err := r.observe(ctx, v); err != nil {
		return fail(err)
	}
	switch revoked := r.state.Revoked; {
	case v.State == dnscheck.Present && revoked != nil && revoked.Set == sweep.Unroute:
		if err := r.route(ctx); err != nil {
			return fail(fmt.Errorf("submit the restoration of the domain: %w", err))
		}
	case v.State == dnscheck.Absent && r.state.IsLost():
		a := r.state.Absence
		why := fmt.Sprintf("gone since %s, by %d sweeps: %s", stamp.UTC(a.Since), a.Checks, r.sentence(v))
		return r.settleWith(v, ledger.Lost, why)
	case v.State == dnscheck.Absent && r.state.Proven == nil:
		why := "unproven: its token was never proven, so it is neither lost nor revoked: " + v.Sentence()
		if !r.cfg.Rules.Unproven(r.state) {
			return engine.Settle(unchanged(why))
		}
		return r.settleWith(v, ledger.Unproven, why)
	case v.State == dnscheck.Absent:
		return r.settleWith(v, ledger.AtRisk, described)
	case v.State == dnscheck.Present && r.state.Proven != nil && r.state.Proven.At.Equal(r.state.At): // by this sweep
		return engine.Settle(ledger.Result{Outcome: ledger.Unchanged, Detail: "present, and proven",
			Evidence: r.state.Proven.Evidence})
	}
	return engine.Settle(unchanged(described))
}

// diagnose finds the mistake with the absent record of a domain that was proven: its events name
// it. The verdict stands whatever it finds. It takes a place of those for slow zones, so that it
// delays no check, and is left out if there is none, and in a worker that stops.
func (r *recheck) diagnose(ctx context.Context, v dnscheck.Verdict) {
	proven := r.record.IsVerified() && r.state.Proven != nil
	if v.State != dnscheck.Absent || !proven || r.x.Stopping() {
		return
	}
	free, ok := r.cfg.Verify.Places.take(string(dnscheck.ReasonTimeout))
	if !ok {
		return
	}
	defer free()
	d, err := r.cfg.Verify.DNS.Diagnose(ctx, r.record.Host, r.record.Name, r.record.TXT, v)
	if err == nil && len(d.Findings) > 0 {
		r.finding = &d.Findings[0]
	}
}

// sentence describes a verdict: by the mistake with the record, if it was found.
func (r *recheck) sentence(v dnscheck.Verdict) string {
	if r.finding != nil {
		return r.finding.Advice(r.record.Host)
	}
	return v.Sentence()
}

// settleWith settles the row of an absent record with the evidence of the check, as an expired row
// is: with the record, and the mistake with it.
func (r *recheck) settleWith(v dnscheck.Verdict, outcome ledger.Outcome, why string) *engine.Consequence {
	e := evidence.OfCheck(v.Evidence(), r.x.Now())
	e.Record = evidence.RecordOf(r.record)
	if r.finding != nil {
		e.Findings = []report.Finding{*r.finding}
	}
	packed, err := e.Pack()
	if err != nil {
		return engine.Fail(err)
	}
	return engine.Settle(ledger.Result{Outcome: outcome, Detail: why, Evidence: packed})
}

// query is queryAndProve in a place of the DNS checks. It ends a row that cannot be checked now.
func (r *recheck) query(ctx context.Context) (dnscheck.Verdict, *engine.Consequence) {
	free, ok := r.cfg.Verify.Places.take(r.state.Reason)
	if !ok {
		return dnscheck.Verdict{}, noPlace()
	}
	defer free()
	v, err := r.queryAndProve(ctx)
	if err != nil {
		return v, engine.Fail(err)
	}
	return v, nil
}

// queryAndProve checks the token, and proves it if that was never done for the record's.
func (r *recheck) queryAndProve(ctx context.Context) (v dnscheck.Verdict, err error) {
	d := r.record
	v, err = r.cfg.Verify.DNS.Check(ctx, d.Host, d.TXT)
	proven := r.state.Proven != nil && r.state.OrganizationID == d.OrganizationID && r.state.TokenHash == r.tokenHash()
	if err != nil || v.State != dnscheck.Present || !d.IsVerified() || proven {
		return v, err
	}
	strict, err := r.cfg.Verify.DNS.Prove(ctx, d.Host, d.TXT)
	if err != nil {
		return v, err
	}
	proof, ok := strict.Proof()
	if !ok {
		r.unproven = strict.Sentence()
		return v, nil
	}
	e := evidence.OfProof(proof.Verdict().Evidence(), d, r.x.Now())
	r.cfg.Verify.Logger.InfoContext(ctx, "audit", "event", "domain proven", "run", r.x.Run,
		"organization_id", d.OrganizationID, "discovery_domain_id", d.ID, "domain", d.Name,
		"verification_host", d.Host, "proven_at", e.At, "basis", e.Basis, "quorum", e.Quorum,
		"resolvers", e.Resolvers)
	r.proven, err = e.Pack()
	return v, err
}

func (r *recheck) tokenHash() string {
	return sweep.HashToken(r.record.Host, r.record.TXT)
}

// observe stores the observation.
func (r *recheck) observe(ctx context.Context, v dnscheck.Verdict) (err error) {
	o := sweep.Observation{Domain: r.record, Tick: r.want.Tick, Verdict: v, Proof: r.proven,
		Operator: v.Operator, At: r.x.Now(), Finding: r.finding}
	if o.Operator == "" && r.state.Operator == "" && v.State == dnscheck.Absent {
		if o.Operator, err = r.cfg.Operators.Operator(ctx, o.Host); err != nil {
			return err
		}
	}
	r.state, err = r.cfg.States.Observe(ctx, o, r.cfg.Rules, r.state, r.raw)
	return err
}

// OneRow is a run of one row that a handler submits.
type OneRow struct {
	ID      ledger.RunID
	Kind    ledger.Kind
	Content []byte
}

// route submits a run that routes the domain again. Its id is derived from domain and sweep: one
// without success is followed by that of the next sweep. The hash distinguishes tenants, since
// ids of runs are unique among all.
func (r *recheck) route(ctx context.Context) error {
	content, err := json.Marshal(sweep.RevokeRow{
		OrganizationID: r.record.OrganizationID, DiscoveryDomainID: r.record.ID,
		Set: sweep.Unroute, Undo: true,
	})
	if err != nil {
		return err
	}
	sum := sha256.Sum256([]byte(string(r.cfg.Tenant) + "\x00" + r.record.ID))
	id := ledger.RunID(fmt.Sprintf("restore-%d-%x", r.want.Tick, sum[:8]))
	return r.cfg.Submit(ctx, OneRow{ID: id, Kind: Revoke, Content: content})
}

// verify verifies a pending domain whose token is there, once a permit is near. It proves the
// record that it reads, whose host and token may differ from those of the scan.
func (r *recheck) verify(ctx context.Context) *engine.Consequence {
	v, err := r.verifier()
	if err != nil {
		return engine.Fail(err)
	}
	if r.state.IsPending() { // for a record that omits it: as the scan has read it, or as it was before
		if v.flag = r.record.Flag; v.flag == nil {
			v.flag = new(r.state.Revoked.Flag)
		}
	}
	r.row.Stage = ledger.StageReady
	if end := v.inLine(); end != nil {
		return end
	}
	if v.record, err = v.readYoung(ctx, v.x.Fenced()); err != nil {
		return engine.Fail(err)
	}
	if end := unprovable(v.record); end != nil {
		r.withdrawn = "" // it was verified again, or cannot be
		return end
	}
	return v.prove(ctx)
}

func (r *recheck) verifier() (*verifier, error) {
	if err := tasks.CheckDomainIDs(r.record.OrganizationID, r.record.ID); err != nil {
		return nil, engine.Invalid(err)
	}
	v, err := newVerifier(r.cfg.Verify, r.x, r.row, r.record.OrganizationID, r.record.ID)
	v.bySweep = true
	v.notProven = func(_ context.Context, verdict dnscheck.Verdict) *engine.Consequence {
		// It is not checked again: the next sweep does that.
		return engine.Settle(unchanged("pending; the token was seen, but not proven: " + verdict.Sentence()))
	}
	return &v, err
}
