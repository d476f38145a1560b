package handlers

// A check only reads. A PATCH to verified is idempotent (specification 4.1), and is sent
// only by the execution that made the proof. Its intent, with the proof, is stored right
// before it is sent. An execution that finds an intent reads the record first, and settles
// the row, reverts the PATCH, or proves the domain again (verify_lost.go).
//
// Of two executions, of which the ledger takes the first for dead, only the second writes.
// The first asks the ledger right before each request, and compares the answer of its own
// PATCH even if it has lost the row meanwhile.

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"orgops/apiclient"
	"orgops/dnscheck"
	"orgops/internal/engine"
	"orgops/internal/events"
	"orgops/internal/ledger"
)

// Verify is the kind of rows that verify a discovery domain once its token is in DNS.
const Verify ledger.Kind = "domain:verify"

// DNS is the part of [dnscheck.Checker] that verification needs.
type DNS interface {
	Check(ctx context.Context, host, token string) (dnscheck.Verdict, error)
	Prove(ctx context.Context, host, token string) (dnscheck.Verdict, error)
}

// Line is the part of the tenant's pace that verification needs.
type Line interface {
	// Ahead returns about how long a request of the context waits for its permit.
	Ahead(ctx context.Context) time.Duration
}

// VerifyConfig configures the handler of [Verify].
type VerifyConfig struct {
	API  Domains
	DNS  DNS
	Line Line
	// RequestTimeout is the client's: a request whose answer was lost may have its effect
	// until twice that time later.
	RequestTimeout time.Duration
	// Places bounds the checks that are in progress at a time; nil: no limit.
	Places *Places
	// Notify is called with each event and the evidence of the row's result before the row is
	// settled, and again with the same ID if the execution is repeated. The event has no
	// tenant. nil: no notifications.
	Notify func(ctx context.Context, e events.Event, evidence []byte) error
	// Item returns the number of a row over all segments of its run, for the log line of a
	// verified domain. nil: the number in its segment.
	Item   func(context.Context, ledger.Segment, ledger.Row) (int64, error)
	Logger *slog.Logger // nil: none
}

const (
	// longestLine is the time to wait for a permit from which on a row with a token waits
	// in the ledger, where it holds no place of the worker.
	longestLine = 2 * time.Second
)

// NewVerify returns the handler of [Verify].
func NewVerify(cfg VerifyConfig) engine.Handler {
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	return engine.One(func(ctx context.Context, x *engine.Execution, row *engine.Row) (ledger.Result, error) {
		want, err := decode[VerifyRow](row)
		if err != nil {
			return ledger.Result{}, err
		}
		v, err := newVerification(cfg, x, row, want)
		if err != nil {
			return ledger.Result{}, err
		}
		return v.execute(ctx)
	})
}

// verification is one execution of a row.
type verification struct {
	change

	cfg VerifyConfig
	// swept says that the row is of kind [Recheck]: it is proven once and not checked
	// again, since the next sweep checks it.
	swept bool

	want   VerifyRow
	state  VerifyState
	former *verifyIntent // of an earlier execution; nil: none
}

// newVerification reads the row's memo and intent.
func newVerification(cfg VerifyConfig, x *engine.Execution, row *engine.Row, want VerifyRow) (v *verification, err error) {
	v = &verification{
		change: change{
			x: x, row: row, api: cfg.API, timeout: cfg.RequestTimeout, settled: defaultSettled,
			organization: want.OrganizationID, domain: want.DiscoveryDomainID,
		},
		cfg: cfg, want: want,
	}
	if v.state, err = ReadVerifyState(row.Note.Memo); err != nil {
		return nil, err
	}
	if v.state.Record == nil && want.Listed != nil {
		v.state.Record = recordOf(want.Listed.DiscoveryDomain)
	}
	v.former, err = formerIntent(row)
	return v, err
}

func (v *verification) execute(ctx context.Context) (ledger.Result, error) {
	switch {
	case v.former != nil:
		return v.resume(ctx)
	case v.row.Stage == ledger.StageReady:
		return v.confirm(ctx)
	}
	return v.check(ctx)
}

// confirm reads the record and proves it.
func (v *verification) confirm(ctx context.Context) (ledger.Result, error) {
	d, err := v.fresh(ctx)
	if err != nil {
		return ledger.Result{}, err
	}
	return v.prove(ctx, d)
}

// check queries DNS for the token, and goes on to the proof if a permit is near.
func (v *verification) check(ctx context.Context) (ledger.Result, error) {
	var d apiclient.DiscoveryDomain
	read := v.state.Record == nil || v.isListed()
	if read {
		var err error
		if d, err = v.fresh(leading.of(ctx)); err != nil {
			return ledger.Result{}, err
		}
	}
	verdict, err := v.query(ctx)
	if err != nil {
		return ledger.Result{}, err
	}
	if verdict.State != dnscheck.Present {
		return v.notFound(ctx, verdict)
	}
	v.row.Stage = ledger.StageReady
	if err := v.inLine(ctx); err != nil {
		v.state.Evidence = nil
		return ledger.Result{}, v.keep(err)
	}
	if !read {
		return v.confirm(ctx)
	}
	return v.prove(ctx, d)
}

// inLine leaves a row open whose token is there if it would wait long for its permit.
func (v *verification) inLine(ctx context.Context) error {
	if v.cfg.Line.Ahead(ctx) < longestLine {
		return nil
	}
	return engine.Ready("the token is there; waiting for a permit to verify the domain")
}

// fresh returns the record to prove against: listed a moment ago, or read now. It refuses
// a record that cannot be proven, or need not.
func (v *verification) fresh(ctx context.Context) (d apiclient.DiscoveryDomain, err error) {
	if v.isListed() {
		d, v.readAt = v.want.Listed.DiscoveryDomain, v.want.Listed.At
	} else {
		d, err = v.readYoung(v.x.Beginning(ctx, v.stamp))
	}
	if err == nil {
		err = v.provable(d)
	}
	if err == nil {
		v.state.Record = recordOf(d)
	}
	return d, err
}

// bySweep reports whether a sweep verifies the domain.
func (v *verification) bySweep() bool { return v.swept || v.want.Restore }

// flag returns the flag to send with the status; nil: none. That of a row is sent instead
// of the record's. A sweep's is for a record that omits it, and a sweep verifies nothing
// without a flag: a PATCH without one leaves it to the platform's default.
func (v *verification) flag(d apiclient.DiscoveryDomain) (*bool, error) {
	have, want := d.UseForOrganizationDiscovery, v.want.UseForOrganizationDiscovery
	switch {
	case want == nil, v.bySweep() && have != nil:
		want = have
	}
	if want == nil && v.bySweep() {
		return nil, engine.Refuse("the token is there, but the record has no use_for_organization_discovery, and to verify the domain could turn that on by the platform's default; " +
			"nothing was changed: set the flag explicitly once, or verify the domain by a row that brings use_for_organization_discovery")
	}
	return want, nil
}

// class is the class of a request, in its context.
type class int

const (
	leading  class = 1 + iota // only leads to a check
	sweeping                  // is a read of a sweep
)

type classKey struct{}

func (c class) of(ctx context.Context) context.Context { return context.WithValue(ctx, classKey{}, c) }

// Leading reports whether a request of the context only leads to a check: the requests that
// finish rows go first.
func Leading(ctx context.Context) bool { return ctx.Value(classKey{}) == leading }

// Sweeping reports whether a request of the context is a read of a sweep: it has a part of
// the tenant's pace of its own.
func Sweeping(ctx context.Context) bool { return ctx.Value(classKey{}) == sweeping }

// isListed reports whether the row's listing is fresh.
func (v *verification) isListed() bool {
	return v.want.Listed != nil && v.isFresh(v.want.Listed.At)
}

// provable refuses a record that is not the row's, cannot be proven, or is verified.
func (v *verification) provable(d apiclient.DiscoveryDomain) error {
	if err := v.matches(d); err != nil {
		return err
	}
	if d.Status == apiclient.StatusVerified {
		return engine.Settle(ledger.Result{Outcome: engine.Unchanged, Detail: "was verified before"})
	}
	return below(d)
}

// matches refuses a row whose host or token is not the record's. For a young row the
// record may be read as it was before a change.
func (v *verification) matches(d apiclient.DiscoveryDomain) error {
	var member string
	switch w := v.want; {
	case w.VerificationTXT != "" && w.VerificationTXT != d.VerificationTXT:
		member = "verification_txt"
	case w.VerificationHost != "" && !sameName(w.VerificationHost, d.VerificationHost):
		member = "verification_host"
	default:
		return nil
	}
	const differs = "%s of the row differs from the tenant's record of this domain; nothing was changed"
	return v.readTwice(engine.Refuse(differs, member))
}

// below refuses a record whose domain cannot be any organization's, such as a public
// suffix, and one whose host is not below its domain.
func below(d apiclient.DiscoveryDomain) error {
	if _, err := dnscheck.CheckDomain(d.Domain); err != nil {
		return engine.Refuse("the record's domain cannot be proven: %v", err)
	}
	if dnscheck.Within(d.VerificationHost, d.Domain) {
		return nil
	}
	return engine.Refuse("the record's verification host %.260q is not below its domain %.260q, so a proof there proves nothing about the domain", d.VerificationHost, d.Domain)
}

// prove proves the domain by a quorum, and only then sends the PATCH.
func (v *verification) prove(ctx context.Context, d apiclient.DiscoveryDomain) (ledger.Result, error) {
	flag, err := v.flag(d)
	if err != nil {
		return ledger.Result{}, v.unlessPending(err)
	}
	verdict, err := v.cfg.DNS.Prove(ctx, d.VerificationHost, d.VerificationTXT)
	if err != nil {
		return ledger.Result{}, err
	}
	if verdict.State != dnscheck.Present {
		if v.former != nil { // a read has shown that its PATCH had no effect, unless the read is behind
			if again := v.readAgain(v.former.at); again > 0 {
				return ledger.Result{}, engine.Later(unread, again)
			}
			if err := v.x.Withdraw(ctx, v.row); err != nil {
				return ledger.Result{}, err
			}
		}
		return v.unproven(ctx, verdict)
	}
	if v.x.Stopping() {
		return ledger.Result{}, engine.ErrStopping
	}
	intent, err := v.newIntent(d, flag, verdict)
	if err != nil {
		return ledger.Result{}, err
	}
	return v.patch(ctx, intent)
}

// patch sends the PATCH of a proven domain. The flag is sent as it was read, since the
// specification gives it a default of true (4.1): a PATCH without it could turn a false
// into a true.
func (v *verification) patch(ctx context.Context, next *verifyIntent) (ledger.Result, error) {
	v.row.Stage = ledger.StageReady // of a row that gets no permit
	store := func(ctx context.Context) error {
		if !v.isFresh(v.readAt) {
			return engine.Ready("the record was read too long before the permit; it is read and proven again")
		}
		return intend(ctx, v.x, v.row, next)
	}
	sent := apiclient.DiscoveryDomainUpdate{Status: new(apiclient.StatusVerified), UseForOrganizationDiscovery: next.Flag}
	answer, err := v.send(ctx, sent, store, v.notSent)
	switch {
	case err != nil:
		return ledger.Result{}, v.unlessPending(err)
	case !next.proves(answer) || below(answer) != nil:
		return ledger.Result{}, v.revert(ctx, next, answer, true)
	}
	if err := carriedOut(sent, answer); err != nil {
		return ledger.Result{}, err
	}
	return v.settle(ctx, next)
}

// notFound leaves a row open whose token is not there, or expires it.
func (v *verification) notFound(ctx context.Context, verdict dnscheck.Verdict) (ledger.Result, error) {
	now, end := v.x.Now(), v.end(verdict.State)
	v.observe(verdict, now)
	if !now.Before(end) {
		return ledger.Result{}, v.expire(ctx)
	}
	since := v.changed(verdict, now)
	after := nextCheck(now.Sub(since), verdict.NegativeTTL)
	if verdict.State == dnscheck.Absent {
		// The last check may expire the row.
		after = max(min(after, end.Sub(now)), min(verdict.NegativeTTL, maxNegativeTTL))
	}
	return ledger.Result{}, v.keep(engine.NotYet(v.state.Evidence.Sentence, after))
}

// unproven leaves a row open whose token was seen and is not proven. A row whose time is
// up expires, since checks that see the token would go on for ever.
func (v *verification) unproven(ctx context.Context, verdict dnscheck.Verdict) (ledger.Result, error) {
	if v.swept {
		return unchanged("pending; the token was seen, but not proven: " + verdict.Sentence()), nil
	}
	now, end := v.x.Now(), v.end(dnscheck.Unknown)
	v.observe(verdict, now)
	if !now.Before(end) {
		return ledger.Result{}, v.expire(ctx)
	}
	return ledger.Result{}, v.keep(engine.NotYet(v.state.Evidence.Sentence, nextCheck(now.Sub(v.start()), verdict.NegativeTTL)))
}

// observe stores the verdict with the row.
func (v *verification) observe(verdict dnscheck.Verdict, now time.Time) {
	e := checkEvidence(verdict, now)
	v.state.Evidence = &e
}

// keep stores the state with a row that stays open, for the reason given.
func (v *verification) keep(reason error) error {
	state := v.state
	if v.want.Listed != nil && *state.Record == *recordOf(v.want.Listed.DiscoveryDomain) {
		state.Record = nil // the row's content has it
	}
	memo, err := state.pack()
	if err != nil {
		return err
	}
	v.row.Note.Memo = memo
	return reason
}

// expire settles a row whose time is up, with the evidence of the last check.
func (v *verification) expire(ctx context.Context) error {
	e := *v.state.Evidence
	packed, err := e.pack()
	if err != nil {
		return err
	}
	event := v.event(events.DomainExpired, v.state.Record.Domain, e.At)
	event.Data.Reason = e.Sentence
	if err := v.notify(ctx, event, packed); err != nil {
		return err
	}
	return engine.Expire(e.Sentence, packed)
}
