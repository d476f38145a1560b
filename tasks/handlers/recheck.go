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

	"orgops/apiclient"
	"orgops/dnscheck"
	"orgops/internal/dispatch"
	"orgops/internal/engine"
	"orgops/internal/ledger"
	"orgops/internal/pace"
	"orgops/internal/sweep"
	"orgops/tasks"
)

// Recheck is the kind of rows that check a discovery domain for a sweep.
const Recheck ledger.Kind = tasks.TypeRecheck

// releaseRecheck has no operations of a check, which needs DNS only, unless the token is gone: then
// it reads the record. A pending domain whose token is there is read and changed.
var releaseRecheck = dispatch.Kind{
	Operations: dispatch.Operations{Ready: []string{apiclient.OpGetDiscoveryDomain, apiclient.OpUpdateDiscoveryDomain}},
	Cost:       dispatch.Cost{Ready: 2},
}

// OfScan returns the context of the requests of a scan.
func OfScan(ctx context.Context, ofSweep bool) context.Context {
	if ofSweep {
		return withClass(ctx, pace.Sweep)
	}
	return withClass(ctx, pace.Scan)
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
	return engine.One(engine.Adapt(func(ctx context.Context, x *engine.Execution, row *engine.Row) (ledger.Result, error) {
		r := &recheck{cfg: cfg, x: x, row: row}
		result, err := r.execute(ctx)
		if r.withdrawn != "" && err == nil && result.Outcome == engine.Unchanged {
			result = ledger.Result{Outcome: engine.Withdrawn, Detail: r.withdrawn}
		}
		return result, stateError(err)
	}))
}

// recheck is one execution of a row.
type recheck struct {
	cfg RecheckConfig
	x   *engine.Execution
	row *engine.Row

	// record is the domain's record as the scan has read it, or this execution.
	record tasks.RecheckRow
	state  sweep.DomainState
	raw    []byte // of state; nil: none is stored
	// proven is the evidence of the proof of a verified domain, and unproven why there is none.
	proven   []byte
	unproven string
	// withdrawn is why others have taken the domain back; "": they have not.
	withdrawn string
}

func (r *recheck) execute(ctx context.Context) (ledger.Result, error) {
	if err := engine.Decode(r.row.Content, &r.record); err != nil {
		return ledger.Result{}, err
	}
	if r.row.Intent != nil { // the PATCH of an earlier execution
		v, err := r.verifier()
		if err != nil {
			return ledger.Result{}, err
		}
		v.flag = v.former.Flag
		return swept(v.resume(ctx))
	}
	if err := r.record.Validate(); err != nil {
		return ledger.Result{}, engine.Invalid(err)
	}
	if err := r.load(ctx); err != nil {
		return ledger.Result{}, err
	}
	if err := r.notice(ctx); err != nil {
		return ledger.Result{}, err
	}
	switch pending := r.record.Status != apiclient.StatusVerified; {
	case pending && !r.mayVerify():
		return r.foreign(ctx)
	case pending && r.row.Stage == ledger.StageReady:
		return r.verify(ctx)
	}
	return r.check(ctx)
}

// load reads the domain's state. If the record contradicts a revocation, or its request had no
// answer, the record is read again, since the scan may have read it before: a revocation that
// somebody else has changed is not undone.
func (r *recheck) load(ctx context.Context) (err error) {
	id := r.record.DiscoveryDomainID
	if r.state, r.raw, err = r.cfg.States.Read(ctx, id); err != nil {
		return err
	}
	if revoked := r.state.Revoked; revoked == nil || !revoked.DoneAt.IsZero() && !r.contradicts(*revoked) {
		return nil
	}
	if err := r.read(ctx); err != nil {
		return err
	}
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
		case revoked.DoneAt.IsZero() && (revoked.Set == sweep.SetPending || r.record.UseForOrganizationDiscovery != nil):
			s.RevokedAt(now)
		}
	}); err != nil {
		return err
	}
	r.state, r.raw, err = r.cfg.States.Read(ctx, id)
	return err
}

// notice reads the record if that of the scan says that others have taken the domain back: it may
// be older than a verification. It then compares the record that it has read.
func (r *recheck) notice(ctx context.Context) error {
	if !r.state.MayBeWithdrawn(r.recordRead(), r.x.Submitted) {
		return nil
	}
	return r.read(ctx)
}

// recordRead returns the record as states compare it.
func (r *recheck) recordRead() sweep.RecordRead {
	return recordRead(r.record.OrganizationID, r.record.DiscoveryDomainID, apiclient.DiscoveryDomain{
		Status: r.record.Status, VerificationHost: r.record.VerificationHost, VerificationTXT: r.record.VerificationTXT,
	}, r.x.Now())
}

// contradicts reports whether the record reads as if the revocation had been undone, or more had
// been taken away.
func (r *recheck) contradicts(revoked sweep.Revocation) bool {
	status, flag := r.record.Status, r.record.UseForOrganizationDiscovery
	if revoked.Set == sweep.SetPending {
		return status == apiclient.StatusVerified
	}
	return status != apiclient.StatusVerified || flag != nil && *flag
}

// read reads the record. It settles the row of a domain that does not exist, whose state is
// deleted unless it is revoked: a single answer may be that of a server that is behind.
func (r *recheck) read(ctx context.Context) error {
	id := r.record.DiscoveryDomainID
	d, err := r.cfg.Verify.API.DiscoveryDomain(r.x.Beginning(withClass(ctx, pace.Sweep)), r.record.OrganizationID, id)
	// There is none.
	if isNotFound(err) {
		gone := r.recordRead()
		gone.Gone = true
		why, err := r.cfg.States.Notice(ctx, gone, r.x.Submitted)
		if err != nil {
			return err
		}
		if why != "" {
			r.row.Subject = &ledger.Subject{ID: id}
			return engine.Settle(ledger.Result{Outcome: engine.Withdrawn, Detail: why})
		}
		s, _, err := r.cfg.States.Read(ctx, id)
		if err == nil && s.Revoked == nil {
			r.row.Subject = &ledger.Subject{ID: id}
			err = r.cfg.States.Forget(ctx, id)
		}
		if err != nil {
			return err
		}
		return engine.Settle(unchanged("the domain was deleted after the sweep found it"))
	}
	if err != nil {
		return err
	}

	// The record as it is now, and whether others have taken it back.
	r.record.Domain, r.record.VerificationHost, r.record.VerificationTXT = d.Domain, d.VerificationHost, d.VerificationTXT
	r.record.Status, r.record.UseForOrganizationDiscovery = d.Status, d.UseForOrganizationDiscovery
	if err := r.record.CheckRecord(); err != nil {
		return engine.Refuse("the record cannot be checked: %v", err)
	}
	r.withdrawn, err = r.cfg.States.Notice(ctx, r.recordRead(), r.x.Submitted)
	if err == nil && r.withdrawn != "" {
		r.state, r.raw, err = r.cfg.States.Read(ctx, id)
	}
	return err
}

// mayVerify reports whether a pending domain is verified if its token is there.
func (r *recheck) mayVerify() bool { return r.record.Prove || r.state.IsPending() }

// pending describes the status of a record that is not verified.
func (r *recheck) pending() string {
	if r.record.Status == apiclient.StatusPending {
		return "pending"
	}
	return fmt.Sprintf("status %.64q, which counts as pending", string(r.record.Status))
}

// learn has the index of names store the record, with the result of a check; "": there was none.
func (r *recheck) learn(state string) {
	learn(r.x, r.row, Known{
		OrganizationID: r.record.OrganizationID, ID: r.record.DiscoveryDomainID, Domain: r.record.Domain,
		Host: r.record.VerificationHost, TXT: r.record.VerificationTXT, Status: r.record.Status,
		Read: r.x.Now(), State: state,
	})
}

// foreign settles the row of a domain that another client has set to pending. The checks
// made while it was verified count no more.
func (r *recheck) foreign(ctx context.Context) (ledger.Result, error) {
	now := r.x.Now()
	if r.row.Subject == nil {
		r.learn("")
	}
	_, err := r.cfg.States.Change(ctx, r.record.DiscoveryDomainID, func(s *sweep.DomainState) {
		if s.Absence != nil && s.Revoked == nil {
			s.Absence = nil
			s.Note(now, "pending", "someone else has set it to pending")
		}
	})
	return unchanged(r.pending() + ", but not set by orgops: left unchanged"), err
}

// check checks the domain and stores the observation.
func (r *recheck) check(ctx context.Context) (ledger.Result, error) {
	v, err := r.query(ctx)
	if err == nil && v.State == dnscheck.Absent && r.record.Status == apiclient.StatusVerified {
		// Before an absence is stored: host and token are still the record's, or these are checked.
		before := r.tokenHash()
		if err = r.read(ctx); err == nil && before != r.tokenHash() {
			v, err = r.query(ctx)
		}
	}
	if err != nil {
		return ledger.Result{}, err
	}
	r.learn(v.State.String())
	described := v.State.String()
	switch {
	case r.unproven != "":
		described += ", but not proven: " + r.unproven
	case v.State != dnscheck.Present:
		described += ": " + v.Sentence()
	}
	if r.record.Status != apiclient.StatusVerified {
		switch {
		case !r.mayVerify(): // it was verified when it was scanned
			return r.foreign(ctx)
		case v.State == dnscheck.Present:
			return r.verify(ctx)
		case r.state.IsPending():
			err = r.observe(ctx, v)
		}
		return unchanged(r.pending() + "; " + described), err
	}
	if err := r.observe(ctx, v); err != nil {
		return ledger.Result{}, err
	}
	switch revoked := r.state.Revoked; {
	case v.State == dnscheck.Present && revoked != nil && revoked.Set == sweep.Unroute:
		if err := r.route(ctx); err != nil {
			return ledger.Result{}, fmt.Errorf("submit the restoration of the domain: %w", err)
		}
	case v.State == dnscheck.Absent && r.state.IsLost():
		evidence, err := checkEvidence(v, r.x.Now()).Pack()
		a := r.state.Absence
		why := fmt.Sprintf("gone since %s, by %d sweeps: %s", a.Since.Format("2006-01-02 15:04 MST"), a.Checks, v.Sentence())
		return ledger.Result{Outcome: engine.Lost, Detail: why, Evidence: evidence}, err
	case v.State == dnscheck.Absent && r.state.Proven == nil:
		why := "unproven: its token was never proven, so it is neither lost nor revoked: " + v.Sentence()
		if !r.cfg.Rules.Unproven(r.state) {
			return unchanged(why), nil
		}
		evidence, err := checkEvidence(v, r.x.Now()).Pack()
		return ledger.Result{Outcome: engine.Unproven, Detail: why, Evidence: evidence}, err
	case v.State == dnscheck.Present && r.state.Proven != nil && r.state.Proven.At.Equal(r.state.At): // by this sweep
		return ledger.Result{Outcome: engine.Unchanged, Detail: "present, and proven", Evidence: r.state.Proven.Evidence}, nil
	}
	return unchanged(described), nil
}

// query checks the token, and proves it if that was never done for the record's.
func (r *recheck) query(ctx context.Context) (v dnscheck.Verdict, err error) {
	free, err := r.cfg.Verify.Places.take(r.state.Reason)
	if err != nil {
		return v, err
	}
	defer free()
	d := r.record
	v, err = r.cfg.Verify.DNS.Check(ctx, d.VerificationHost, d.VerificationTXT)
	proven := r.state.Proven != nil && r.state.OrganizationID == d.OrganizationID && r.state.TokenHash == r.tokenHash()
	if err != nil || v.State != dnscheck.Present || d.Status != apiclient.StatusVerified || proven {
		return v, err
	}
	strict, err := r.cfg.Verify.DNS.Prove(ctx, d.VerificationHost, d.VerificationTXT)
	if err != nil {
		return v, err
	}
	proof, ok := strict.Proof()
	if !ok {
		r.unproven = strict.Sentence()
		return v, nil
	}
	e := proofEvidence(proof.Verdict(), newCompared(d.OrganizationID, apiclient.DiscoveryDomain{ID: d.DiscoveryDomainID,
		Domain: d.Domain, VerificationHost: d.VerificationHost, VerificationTXT: d.VerificationTXT}), r.x.Now())
	r.cfg.Verify.Logger.InfoContext(ctx, "audit", "event", "domain proven", "run", r.x.Run,
		"organization_id", d.OrganizationID, "discovery_domain_id", d.DiscoveryDomainID, "domain", d.Domain,
		"verification_host", d.VerificationHost, "proven_at", e.At, "basis", e.Basis, "quorum", e.Quorum,
		"resolvers", e.Resolvers)
	r.proven, err = e.Pack()
	return v, err
}

func (r *recheck) tokenHash() string {
	return sweep.HashToken(r.record.VerificationHost, r.record.VerificationTXT)
}

// observe stores the observation.
func (r *recheck) observe(ctx context.Context, v dnscheck.Verdict) (err error) {
	o := sweep.Observation{
		DomainID: r.record.DiscoveryDomainID, OrganizationID: r.record.OrganizationID, Domain: r.record.Domain,
		Host: r.record.VerificationHost, TXT: r.record.VerificationTXT, Tick: r.record.Tick,
		Verdict: v, Proof: r.proven, Operator: v.Operator, At: r.x.Now(),
		FlagOmitted: r.record.UseForOrganizationDiscovery == nil,
	}
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
		OrganizationID: r.record.OrganizationID, DiscoveryDomainID: r.record.DiscoveryDomainID,
		Set: sweep.Unroute, Undo: true,
	})
	if err != nil {
		return err
	}
	sum := sha256.Sum256([]byte(string(r.cfg.Tenant) + "\x00" + r.record.DiscoveryDomainID))
	id := ledger.RunID(fmt.Sprintf("restore-%d-%x", r.record.Tick, sum[:8]))
	return r.cfg.Submit(ctx, OneRow{ID: id, Kind: Revoke, Content: content})
}

// verify verifies a pending domain whose token is there, once a permit is near. It proves the
// record that it reads, whose host and token may differ from those of the scan.
func (r *recheck) verify(ctx context.Context) (ledger.Result, error) {
	v, err := r.verifier()
	if err != nil {
		return ledger.Result{}, err
	}
	if r.state.IsPending() { // for a record that omits it: as the scan has read it, or as it was before
		if v.flag = r.record.UseForOrganizationDiscovery; v.flag == nil {
			v.flag = new(r.state.Revoked.Flag)
		}
	}
	r.row.Stage = ledger.StageReady
	if err := v.inLine(ctx); err != nil {
		return ledger.Result{}, err
	}
	if v.record, err = v.readYoung(v.x.Beginning(ctx, v.stamp)); err == nil {
		err = provable(v.record)
	}
	if err != nil {
		return ledger.Result{}, err
	}
	return swept(v.prove(ctx))
}

func (r *recheck) verifier() (*verifier, error) {
	if err := tasks.CheckDomainIDs(r.record.OrganizationID, r.record.DiscoveryDomainID); err != nil {
		return nil, engine.Invalid(err)
	}
	v, err := newVerifier(r.cfg.Verify, r.x, r.row, r.record.OrganizationID, r.record.DiscoveryDomainID)
	v.bySweep = true
	return &v, err
}

// swept returns the result of a proof. A domain that was not proven is not checked again: the
// next sweep does that.
func swept(result ledger.Result, unproven *dnscheck.Verdict, err error) (ledger.Result, error) {
	if unproven != nil {
		result = unchanged("pending; the token was seen, but not proven: " + unproven.Sentence())
	}
	return result, err
}
