package handlers

// A check only reads, and a second one finds what the first did. The proof and the PATCH that
// follow it may be made twice as verify_proof.go says.

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"orgops/apiclient"
	"orgops/apiclient/schema"
	"orgops/dnscheck"
	"orgops/dnscheck/dnsname"
	"orgops/internal/backoff"
	"orgops/internal/discovery"
	"orgops/internal/engine"
	"orgops/internal/events"
	"orgops/internal/evidence"
	"orgops/internal/index"
	"orgops/internal/ledger"
	"orgops/internal/pace"
	"orgops/tasks"
)

// Verify is the kind of rows that verify a discovery domain once its token is in DNS.
const Verify ledger.Kind = tasks.TypeVerify

// NewVerify returns the handler of [Verify].
func NewVerify(cfg VerifyConfig) engine.Handler {
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	return engine.One(func(ctx context.Context, x *engine.Execution, row *engine.Row) *engine.Consequence {
		v, err := newVerification(cfg, x, row)
		if err != nil {
			return engine.Fail(err)
		}
		return v.withID(v.execute(ctx))
	})
}

// verification is one execution of a row.
type verification struct {
	verifier

	want  tasks.VerifyRow
	state evidence.State
}

func newVerification(cfg VerifyConfig, x *engine.Execution, row *engine.Row) (*verification, error) {
	want, err := decode[tasks.VerifyRow](row)
	if err != nil {
		return nil, err
	}
	v := &verification{want: want}
	if v.state, err = evidence.ReadState(row.Note.Memo); err != nil {
		return nil, &engine.UnknownError{What: "the row's memo (" + err.Error() + ")"}
	}
	if v.state.Record == nil && want.Listed != nil {
		v.state.Record = evidence.RecordOf(*want.ListedDomain())
	}
	if v.verifier, err = newVerifier(cfg, x, row, want.OrganizationID, want.DiscoveryDomainID); err != nil {
		return nil, err
	}
	switch {
	case v.domain != "":
	case v.former != nil:
		v.domain = v.former.evidence.Compared.DiscoveryDomainID
	case v.state.Record != nil:
		v.domain = v.state.Record.DiscoveryDomainID
	}
	v.flag = want.UseForOrganizationDiscovery
	v.bySweep = want.Restore
	v.undo = want.Undo
	v.named = named{domain: want.Domain, host: want.VerificationHost, token: want.VerificationTXT}
	v.notProven = func(ctx context.Context, verdict dnscheck.Verdict) *engine.Consequence {
		v.state.Record = v.recordRead()
		return v.wait(ctx, verdict, true)
	}
	return v, nil
}

func (v *verification) execute(ctx context.Context) *engine.Consequence {
	if v.former != nil {
		return v.resume(ctx)
	}
	if end := v.check(ctx); end != nil {
		return end
	}
	return v.prove(ctx)
}

// check queries DNS for the token, and reads the record. It returns nil if the proof is next,
// since the token is there and a permit is near.
func (v *verification) check(ctx context.Context) *engine.Consequence {
	if v.row.Stage == ledger.StageReady {
		return v.freshRecord(ctx, pace.Finish)
	}
	read := v.state.Record == nil || v.hasFreshListing()
	if read {
		if end := v.freshRecord(ctx, pace.Look); end != nil {
			return end
		}
	}
	verdict, end := v.query(ctx)
	if end != nil {
		return end
	}
	if verdict.State != dnscheck.Present {
		return v.wait(ctx, verdict, false)
	}
	v.row.Stage = ledger.StageReady
	if end := v.inLine(); end != nil {
		v.state.Evidence = nil
		return v.keep(end)
	}
	if read {
		return nil
	}
	return v.freshRecord(ctx, pace.Finish)
}

// hasFreshListing reports whether the row's listing is fresh.
func (v *verification) hasFreshListing() bool {
	return v.want.Listed != nil && v.isFresh(v.want.Listed.At)
}

// freshRecord sets the record to prove, and returns nil if it is the row's, and can be proven.
// The class is that of its requests.
func (v *verification) freshRecord(ctx context.Context, c pace.Class) *engine.Consequence {
	if err := v.readFresh(ctx, c); err != nil {
		return engine.Fail(err)
	}
	return v.acceptRecord()
}

// readFresh sets the record to prove: listed a moment ago, or read now.
func (v *verification) readFresh(ctx context.Context, c pace.Class) error {
	if v.hasFreshListing() {
		v.record = *v.want.ListedDomain()
		v.readAt = v.want.Listed.At
		learnRead(v.x, v.row, v.record)
		return nil
	}
	var err error
	read := v.readYoung
	if v.domain == "" {
		read = v.find
	}
	v.record, err = read(ctx, withClass(v.x.Fenced(), c))
	if v.cfg.Notice != nil {
		err = v.notice(ctx, v.record, err, v.cfg.Notice)
	}
	return err
}

// acceptRecord ends a row whose record is not the one that it names, or cannot be proven, or
// need not; nil: it is next to be proven.
func (v *verification) acceptRecord() *engine.Consequence {
	if v.undo != nil && !v.undo.Holds(v.record) {
		return v.leaveAlone(v.undo.LeftAlone())
	}
	if err := v.named.differs(v.record); err != nil {
		return engine.Fail(v.readTwice(err)) // a young row's record may be read as it was before a change
	}
	v.state.Record = v.recordRead()
	return unprovable(v.record)
}

// recordRead returns the record as it is stored with the row.
func (v *verification) recordRead() *evidence.Record {
	r := evidence.RecordOf(v.record)
	if v.want.DiscoveryDomainID == "" {
		r.DiscoveryDomainID = v.record.ID
	}
	return r
}

// notFound begins the detail of a row whose domain does not exist.
const notFound = "not found: "

// mostPages bounds the list of an organization's domains, each of which has a hundred.
const mostPages = 100

// find finds the domain of a row that has its name instead of its id: by the index of names, whose
// entry may be old, or else in the list of the organization's domains.
func (v *verification) find(ctx context.Context, b apiclient.Binding) (d discovery.Domain, err error) {
	// By the index. Its entry may be old, so that the record must have the name.
	name := dnsname.Key(v.want.Domain)
	if v.cfg.Named != nil {
		v.domain = v.cfg.Named(ctx, v.organization, name)
	}
	if v.domain != "" {
		d, err = v.read(ctx, b)
		if err == nil && dnsname.Key(d.Name) == name {
			return d, nil
		}
		if err != nil && !isNotFound(err) {
			return d, err
		}
		v.domain = ""
	}

	// By the list of the organization's domains.
	client := v.cfg.List(b)
	from := ""
	for range mostPages {
		var all []apiclient.Listed[schema.DiscoveryDomain]
		all, from, err = client.DiscoveryDomainsPage(ctx, v.organization, from)
		v.readAt = v.x.Requested()
		if isNotFound(err) {
			err = v.readTwice(err)
		}
		if err != nil {
			return d, err
		}
		for _, l := range all {
			switch {
			case dnsname.Key(l.Record.Domain) != name:
			case l.Err != nil:
				return d, engine.Refuse("domain %q of the organization: %v", name, l.Err)
			default:
				d = discovery.Of(v.organization, l.Record)
				v.domain = d.ID
				learnRead(v.x, v.row, d)
				return d, nil
			}
		}
		if from == "" {
			return d, v.readTwice(engine.Refuse(notFound+"organization %q has no domain %q: add it there, or correct the row",
				v.organization, name))
		}
	}
	return d, engine.Refuse("domain %q is not among the first %d00 of organization %q: give its discovery_domain_id",
		name, mostPages, v.organization)
}

// withID adds the id that was found to the reason of a row that settles without evidence, unless
// the reason names it.
func (v *verification) withID(end *engine.Consequence) *engine.Consequence {
	settles := end.Outcome == ledger.Refused || end.Outcome == ledger.Unchanged
	named := v.want.DiscoveryDomainID != "" || v.domain == "" || strings.Contains(end.Reason, v.domain)
	if settles && !named {
		end.Reason += fmt.Sprintf(" (discovery domain %q)", v.domain)
	}
	return end
}

// query checks whether the row's token is there, and ends a row that cannot be checked now. The
// reason of a row without a place stays that of its last check.
func (v *verification) query(ctx context.Context) (dnscheck.Verdict, *engine.Consequence) {
	last := cmp.Or(v.state.Evidence, new(evidence.Evidence))
	free, ok := v.cfg.Places.take(last.Reason)
	if !ok {
		end := noPlace()
		if reason := last.Advice(); reason != "" {
			end = engine.NotYet(reason, untilPlace())
		}
		return dnscheck.Verdict{}, v.keep(end)
	}
	defer free()
	verdict, err := v.cfg.DNS.Check(ctx, v.state.Record.Host, v.state.Record.TXT)
	if err != nil {
		return verdict, engine.Fail(err)
	}
	return verdict, nil
}

// keep stores the state with a row that stays open.
func (v *verification) keep(end *engine.Consequence) *engine.Consequence {
	state := v.state
	if v.want.Listed != nil && *state.Record == *evidence.RecordOf(*v.want.ListedDomain()) {
		state.Record = nil // the row's content has it
	}
	memo, err := state.Pack()
	if err != nil {
		return engine.Fail(err)
	}
	v.row.Note.Memo = memo
	return end
}

const (
	// moreForUnknown is how long beyond its give-up a row stays open whose checks have no
	// answer: no answer is not evidence of absence.
	moreForUnknown = 24 * time.Hour
	// firstCheck is the age at which a row is checked again first. The intervals double
	// until the row is as old as checksDouble, and are hourly then.
	firstCheck   = 15 * time.Second
	checksDouble = 30 * time.Minute
	hourly       = time.Hour
	// maxNegativeTTL bounds how long the TTL of a negative answer delays the next check:
	// strangers choose it.
	maxNegativeTTL = time.Hour
)

// wait leaves a row open whose token a check has not found, or was seen but not proven, and
// expires it once its time is up: by its last check, or the last proof.
func (v *verification) wait(ctx context.Context, verdict dnscheck.Verdict, seen bool) *engine.Consequence {
	now := v.x.Now()
	s := &v.state

	// The answer. A token that was seen is not absent.
	state := verdict.State
	if seen {
		state = dnscheck.Unknown
	}

	// The row's time. It begins at its submission, or at its first execution if that was after its
	// time was up, and is longer without an answer.
	first := v.row.FirstBegun
	if first.IsZero() {
		first = now
	}
	start, end := tasks.Awaited(v.x.Submitted, first, v.x.GiveUp, v.cfg.GiveUp)
	if state != dnscheck.Absent {
		end = end.Add(moreForUnknown)
	}
	last := !now.Before(end)

	// The age by which checks become rarer. If the zone's answer has changed, someone is working on
	// the zone and the token is likely to come soon: the age begins anew. No answer is no change.
	// That happens only once checks have become hourly, so that a zone which always answers
	// differently is not checked all the time.
	since := start
	if !seen && s.Since.After(since) {
		since = s.Since
	}
	answerChanged := false
	if state == dnscheck.Absent {
		found := digest(verdict)
		answerChanged = !bytes.Equal(s.Found, found)
		if answerChanged && s.Found != nil && now.Sub(since) > checksDouble+hourly {
			s.Since = now
			since = now
		}
		s.Found = found
	}

	// The evidence, with the finding of the last diagnosis unless the answer has changed.
	e := evidence.OfCheck(verdict.Evidence(), now)
	e.Record = s.Record
	if s.Evidence != nil {
		e.Findings = s.Evidence.Findings
	}
	if answerChanged {
		s.Diagnosed = 0
		e.Findings = nil
	}

	// The diagnosis. A person who asks why the row has waited for an hour is told what the resolvers
	// see. An absence is diagnosed when it is new, ever more rarely, and before the row expires.
	switch {
	case state == dnscheck.Unknown && verdict.State == dnscheck.Unknown:
		if s.Evidence != nil {
			e.ResolversSee = s.Evidence.ResolversSee
		}
		if now.Sub(start) >= hourly && !now.Before(nextDiagnosis(start, s.Diagnosed)) && !v.x.Stopping() {
			v.diagnose(ctx, verdict, &e)
		}
	case state == dnscheck.Absent:
		if (last || !now.Before(nextDiagnosis(start, s.Diagnosed))) && !v.x.Stopping() {
			v.diagnose(ctx, verdict, &e)
		}
	}
	s.Evidence = &e

	// The index of names learns the answer.
	checked := s.Record.DiscoveryDomain(v.organization, v.domain)
	checked.Status = schema.StatusPending
	known := index.Entry{Domain: checked, Read: cmp.Or(v.readAt, v.row.FirstBegun, now), State: state.String()}
	learn(v.x, v.row, known)

	// The row expires, and its event is notified before.
	if last {
		packed, err := e.Pack()
		if err != nil {
			return engine.Fail(err)
		}
		expired := events.Event{Type: events.DomainExpired, At: e.At,
			Data: events.Data{Domain: s.Record.Domain, Reason: e.Advice(), Mistake: string(e.Mistake())}}
		if err := v.notify(ctx, expired, "", packed); err != nil {
			return fail(err)
		}
		return engine.Expire(e.Advice(), packed)
	}

	// The next check. The last one may expire the row, if no cache has an older answer then.
	after := nextCheck(now.Sub(since), verdict.NegativeTTL)
	if state == dnscheck.Absent {
		after = max(min(after, end.Sub(now)), min(verdict.NegativeTTL, maxNegativeTTL))
	}
	known.Next = now.Add(after)
	learn(v.x, v.row, known)

	// Attempts are failures one after the other: those before a check that was made do not count.
	v.row.Progressed()
	return v.keep(engine.NotYet(e.Advice(), after))
}

// nextDiagnosis returns when an absence is diagnosed again: a record that is mislaid later
// changes nothing at the host. Each diagnosis queries some twenty names, so they become rare.
func nextDiagnosis(start time.Time, diagnosed int64) time.Time {
	if diagnosed == 0 {
		return time.Time{}
	}
	return start.Add(max(checksDouble, 2*time.Unix(diagnosed, 0).Sub(start)))
}

// diagnose stores the nearest mistake with the absent record in its evidence, or what the resolvers
// see of one that is unknown. The verdict stands whatever it finds. It takes a place of those for
// slow zones, so that it delays no check, and is left out if there is none.
func (v *verification) diagnose(ctx context.Context, verdict dnscheck.Verdict, e *evidence.Evidence) {
	free, ok := v.cfg.Places.take(string(dnscheck.ReasonTimeout))
	if !ok {
		return
	}
	defer free()
	r := v.state.Record
	d, err := v.cfg.DNS.Diagnose(ctx, r.Host, r.Domain, r.TXT, verdict)
	switch {
	case err != nil:
		return
	case verdict.State == dnscheck.Unknown:
		e.ResolversSee = d.ResolversSee
	case len(d.Findings) > 0:
		e.Findings = d.Findings[:1]
	case len(d.Unanswered) == 0:
		e.Findings = nil
	}
	v.state.Diagnosed = e.At.Unix()
}

// digest distinguishes two answers of a zone. Values are strangers', so a hash is stored.
func digest(v dnscheck.Verdict) []byte {
	var values []string
	for _, o := range v.Observations {
		if o.Reason == v.Reason {
			values = append(values, o.Values...)
		}
	}
	slices.Sort(values)
	h := sha256.New()
	fmt.Fprintf(h, "%s\n", v.Reason)
	for _, value := range slices.Compact(values) {
		fmt.Fprintf(h, "%q\n", value)
	}
	return h.Sum(nil)[:8]
}

// nextCheck returns when a row of that age is checked again: at ages 15 s and 30 s, then
// doubling to 30 min, then hourly, each spread by a tenth; never before a negative answer
// that came from a cache can have expired (RFC 2308).
func nextCheck(age, negativeTTL time.Duration) time.Duration {
	age = max(age, 0) // Redis' clock may have been set back
	at := firstCheck
	// A check up to a tenth early was for the age that it nearly had.
	for at <= age+age/8 && at < checksDouble {
		at *= 2
	}
	wait := hourly
	if at > age {
		wait = at - age
	}
	wait = backoff.Spread(wait)
	// A second more than the TTL: the cache's clock may be behind.
	return max(wait, min(negativeTTL, maxNegativeTTL)+time.Second)
}
