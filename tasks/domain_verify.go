package tasks

// A look only reads: the record once, then DNS. A second run of it looks
// again, or finds its confirm enqueued under the same id.

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"orgops/apiclient"
	"orgops/dnscheck"
)

// VerifyPayload asks for the proof of one discovery domain; it is the
// payload of domain:verify, which looks, and of domain:confirm, which proves
// and PATCHes. Host and token may be left out; then they are read from the
// tenant's record.
type VerifyPayload struct {
	Envelope

	OrganizationID              string    `json:"organization_id"`
	DiscoveryDomainID           string    `json:"discovery_domain_id"`
	VerificationHost            string    `json:"verification_host,omitempty"`
	VerificationTXT             string    `json:"verification_txt,omitempty"`
	UseForOrganizationDiscovery *bool     `json:"use_for_organization_discovery,omitempty"` // nil: as it is
	GiveUpAt                    time.Time `json:"give_up_at"`
}

// Validate checks what does not need the tenant.
func (p VerifyPayload) Validate() error {
	if p.GiveUpAt.IsZero() {
		return errors.New("give_up_at is missing")
	}
	return validateVerify(p.OrganizationID, p.DiscoveryDomainID, p.VerificationHost, p.VerificationTXT)
}

// moreForUnknown is how long past give_up_at a row stays open whose looks
// were not answered: that is no word of the customer's zone.
const moreForUnknown = 24 * time.Hour

type verify struct {
	cfg     Config
	records records
}

// sight is where a look looks, for what, and on whose word.
type sight struct {
	target

	known bool    // the tenant's record says so, not the payload alone
	fresh *record // that record, where this execution has read it
}

func (h *verify) process(ctx context.Context, job Job, p VerifyPayload) (Result, error) {
	// A PATCH of this row may have landed, as where the run was paused and
	// resumed meanwhile: what became of it is the confirm's to see to, whatever
	// the record reads.
	if former, err := begun(job); err != nil || former != nil {
		if err != nil {
			return Result{}, err
		}
		return h.handOn(ctx, job, p, target{former.Host, former.TXT})
	}
	at, err := h.sight(ctx, job, p)
	if err != nil {
		return Result{}, err
	}
	verdict, err := h.cfg.DNS.Look(ctx, at.Host, at.TXT)
	if err != nil {
		return Result{}, err
	}
	if verdict.State == dnscheck.Present {
		return h.handOn(ctx, job, p, at.target)
	}
	return Result{}, h.notThere(ctx, job, p, at, verdict)
}

// errVerified: the record says verified before anything was done.
var errVerified = &settledError{Unchanged, "was verified before"}

// sight takes the payload's word where it brings host and token, else the
// record's, kept from an earlier look or read now.
func (h *verify) sight(ctx context.Context, job Job, p VerifyPayload) (sight, error) {
	claimed := target{p.VerificationHost, p.VerificationTXT}
	if rec := h.records.kept(job); rec != nil {
		return sight{target: target{rec.Host, rec.TXT}, known: true}, h.records.matches(job, claimed, *rec)
	}
	if claimed.Host != "" && claimed.TXT != "" {
		return sight{target: claimed}, nil
	}
	if h.cfg.TrustPayload {
		return sight{}, refused("the tenant's settings trust the payload because its credentials may not read; then the row has to bring verification_host and verification_txt")
	}
	return h.ask(ctx, job, p)
}

// ask reads the record, and refuses one that cannot, or need not, be proven.
func (h *verify) ask(ctx context.Context, job Job, p VerifyPayload) (sight, error) {
	d, err := h.records.read(ctx, job, p.OrganizationID, p.DiscoveryDomainID)
	if err != nil {
		return sight{}, err
	}
	rec := recordOf(d)
	if err := h.records.matches(job, target{p.VerificationHost, p.VerificationTXT}, rec); err != nil {
		return sight{}, err
	}
	if d.Status == apiclient.StatusVerified {
		return sight{}, errVerified
	}
	return sight{target: target{rec.Host, rec.TXT}, known: true, fresh: &rec}, below(d)
}

// handOn enqueues the confirm with what was seen.
func (h *verify) handOn(ctx context.Context, job Job, p VerifyPayload, at target) (Result, error) {
	p.VerificationHost, p.VerificationTXT = at.Host, at.TXT
	err := enqueue(ctx, h.cfg.Enqueuer, spec{
		typ: TypeConfirm, payload: p, id: confirmTaskID(job.TaskID), queue: APIQueue(job.Tenant, job.Lane),
	})
	if err != nil {
		return Result{}, fmt.Errorf("enqueue confirm: %w", err)
	}
	return Result{Outcome: HandedOn, Detail: "the token is there; its proof is next"}, nil
}

// notThere says when to look again, or that the time is up.
func (h *verify) notThere(ctx context.Context, job Job, p VerifyPayload, at sight, v dnscheck.Verdict) error {
	now := h.cfg.Now()
	end := p.end(v)
	over := !now.Before(end)
	// What stands at a host that only the payload named is not quoted to
	// anyone before the record has confirmed that host.
	if !at.known && !h.cfg.TrustPayload && (over || v.Reason == dnscheck.ReasonOtherValue) {
		var err error
		if at, err = h.ask(ctx, job, p); err != nil {
			return err
		}
	}
	left := leavings{verdict: v, confirmed: at.known, at: now, marks: map[string][]byte{}}
	if over {
		rec := at.fresh
		if rec == nil {
			rec = h.records.kept(job)
		}
		return left.expire(ctx, h.cfg, job, p, rec)
	}
	if at.fresh != nil { // one GET serves all looks to come
		if err := left.mark(keptRecord, *at.fresh); err != nil {
			return err
		}
	}
	since, err := changed(job, &left)
	if err != nil {
		return err
	}
	after := untilNext(job, h.cfg, now, nextLook(now.Sub(since), v.NegativeTTL))
	if v.State == dnscheck.Absent {
		// The last look is the one that may say that the time is up.
		after = max(min(after, end.Sub(now)), min(v.NegativeTTL, longestNegativeTTL))
	}
	after, err = left.keep(ctx, h.cfg.Ledger, job, after)
	if err != nil {
		return err
	}
	return notYet(left.sentence(), after)
}

// end is when the row's time is up, by what a check, or a proof, has found.
func (p VerifyPayload) end(v dnscheck.Verdict) time.Time {
	if v.State == dnscheck.Unknown {
		return p.GiveUpAt.Add(moreForUnknown)
	}
	return p.GiveUpAt
}

// expire keeps what was found last, notifies of it, and returns the error that settles the
// row as expired. An execution that is killed in between leaves all of it to the next one.
func (l leavings) expire(ctx context.Context, cfg Config, job Job, p VerifyPayload, rec *record) error {
	if _, err := l.keep(ctx, cfg.Ledger, job, never); err != nil {
		return err
	}
	if cfg.Notices == nil {
		return expired(l.sentence())
	}
	data := NoticeData{Tenant: job.Tenant, OrganizationID: p.OrganizationID, DiscoveryDomainID: p.DiscoveryDomainID, Run: job.Run, Reason: l.sentence()}
	if rec != nil {
		data.Domain = rec.Domain
	}
	err := cfg.Notices.Tell(ctx, Notice{
		ID: fmt.Sprintf("%s-%s-%d-%d", NoticeExpired, job.Run, *job.Item, job.CreatedAt.Unix()), Type: NoticeExpired, At: second(l.at), Data: data,
	})
	if err != nil {
		return err
	}
	return expired(l.sentence())
}

// leavings are what a look, or a proof, leaves of a row that does not have its token.
type leavings struct {
	verdict   dnscheck.Verdict
	confirmed bool // the tenant's record names the host that was asked for
	at        time.Time
	accepted  time.Time // when a thin proof will be accepted; zero: there is none
	marks     map[string][]byte
}

// sentence says what was found: at a host that nothing confirms, no more than that
// the token is not there.
func (l leavings) sentence() string {
	switch {
	case !l.confirmed:
		return l.verdict.Plain()
	case !l.accepted.IsZero():
		return strings.TrimSuffix(l.verdict.Sentence(), ".") + ": accepted if that is still so at " + l.accepted.UTC().Format("2006-01-02 15:04 MST") + "."
	}
	return l.verdict.Sentence()
}

// mark adds what is kept by that name.
func (l leavings) mark(name string, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("keep %s: %w", name, err)
	}
	l.marks[name] = text
	return nil
}

// never is when a row is looked at again for which the time is up.
const never time.Duration = 0

// keep writes all of it down in one step, with when the row is looked at again, and
// returns after what time its task has to be due for that.
func (l leavings) keep(ctx context.Context, ledger Ledger, job Job, after time.Duration) (due time.Duration, err error) {
	evidence, err := packVerdict(l.verdict, l.confirmed, l.at)
	if err != nil {
		return 0, err
	}
	if len(job.kept[keptThin]) > 0 && l.verdict.Contested() {
		var span thinSpan
		readMark(job, keptThin, &span)
		at := l.at.UTC()
		if at.Before(span.Since) { // by the clock of another worker
			at = span.Since
		}
		if err := l.mark(keptContested, at); err != nil {
			return 0, err
		}
	}
	var next time.Time
	if after != never {
		next, due = inWholeSeconds(l.at, after)
	}
	return due, ledger.Looked(ctx, job.Run, *job.Item, job.Generation, string(NotYet)+": "+l.sentence(), next, evidence, l.marks)
}

// seen is what stands in the token's place, as the zone has last said it.
type seen struct {
	What  string    `json:"what"`           // the reason, and a hash of the values there
	Since time.Time `json:"since,omitzero"` // when it was found to have changed; zero: it has not
}

const keptSeen = "seen"

// changed has what the zone says in the token's place kept, and returns from when on
// the row is looked at as if it were new: where that has changed, someone is at
// work on the zone, and the token is likely to come soon. What nobody could say
// is no change; and in a zone that says something else each time looks grow rare
// all the same, since they begin anew only once they had become hourly.
func changed(job Job, left *leavings) (since time.Time, err error) {
	var before seen
	if value := job.kept[keptSeen]; len(value) > 0 && json.Unmarshal(value, &before) != nil {
		before = seen{} // of another version
	}
	since = job.CreatedAt
	if !before.Since.IsZero() {
		since = before.Since
	}
	what := whatStands(left.verdict)
	if left.verdict.State != dnscheck.Absent || what == before.What {
		return since, nil
	}
	after := seen{What: what, Since: before.Since}
	if before.What != "" && left.at.Sub(since) > looksDouble+hourly {
		after.Since, since = left.at, left.at
	}
	return since, left.mark(keptSeen, after)
}

// whatStands tells two answers of a zone apart. The values are strangers', and
// only a hash of them is kept.
func whatStands(v dnscheck.Verdict) string {
	var values []string
	for _, o := range v.Observations {
		if o.Reason == v.Reason {
			values = slices.Concat(values, o.Values)
		}
	}
	slices.Sort(values)
	h := sha256.New()
	for _, value := range slices.Compact(values) {
		fmt.Fprintf(h, "%q\n", value)
	}
	return fmt.Sprintf("%s %x", v.Reason, h.Sum(nil)[:8])
}

// inWholeSeconds is when a look is due that must not come sooner than so long after
// now, or it would meet the negative answer that it was to outlive; and what asynq is
// told for that. It adds the time to its own now, which is a little later, and cuts
// off the fraction of the second: counted to a second's beginning, as here, that
// comes to the same second.
func inWholeSeconds(now time.Time, after time.Duration) (next time.Time, due time.Duration) {
	next = now.Add(after + time.Second - 1).Truncate(time.Second)
	return next, next.Sub(now)
}

// wholeSeconds rounds up: asynq's schedule has whole seconds.
func wholeSeconds(d time.Duration) time.Duration {
	return max(d.Truncate(time.Second)+time.Second, time.Second)
}

// sameName compares names as DNS does (RFC 4343), a trailing dot aside.
func sameName(a, b string) bool {
	return strings.EqualFold(strings.TrimSuffix(a, "."), strings.TrimSuffix(b, "."))
}

// again enqueues the next look of a row whose confirm no longer saw the token.
func again(ctx context.Context, cfg Config, job Job, p VerifyPayload, after time.Duration) error {
	err := enqueue(ctx, cfg.Enqueuer, spec{
		typ: TypeVerify, payload: p, id: nextLookTaskID(job.TaskID), queue: DNSQueue(job.Tenant, job.Lane), after: after,
	})
	if err != nil {
		return fmt.Errorf("enqueue check: %w", err)
	}
	return nil
}
