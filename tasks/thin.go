package tasks

// A proof is thin where it lacks nothing but name servers that are silent (Thin of
// dnscheck.Verdict). That half of a zone's servers are dead is common; but whoever holds
// the others can silence them, and one check cannot tell the two apart. A tenant may have
// such a proof accepted once it has been the same at each check for some time, which an
// attack would have to last, unnoticed by whoever runs the zone.

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"orgops/apiclient"
	"orgops/dnscheck"
)

const (
	// leastThinProofAfter is the shortest ThinProofAfter: a queue that is held up for a
	// quarter of it breaks the span off.
	leastThinProofAfter = time.Hour
	// thinGaps is into how many parts the checks divide that time at least: a gap that is
	// longer than one part of it begins the span anew. So there are at least five checks.
	thinGaps = 4
)

// CheckThinProofAfter checks a setting of [Config].ThinProofAfter.
func CheckThinProofAfter(after time.Duration) error {
	if after != 0 && after < leastThinProofAfter {
		return fmt.Errorf("thin-proof-after: want 0 (off) or at least %s, got %s", leastThinProofAfter, after)
	}
	return nil
}

const (
	// keptThin is the mark with the row's thinSpan.
	keptThin = "thin"
	// keptContested is the mark with when an answer last spoke against the token of a row
	// that has a thinSpan. It is a mark of its own so that an execution which has read the
	// span before that, and writes it after, does not undo it.
	keptContested = "contested"
)

// thinSpan is for how long the proofs of a row have been thin. It is judged by its times
// alone: an execution that is repeated adds a check, and brings the end no nearer.
//
// A check that nobody answered is not counted, and does not begin the span anew unless the
// gap gets too long: an outage of ours says nothing of the zone, and a day hardly passes
// without a resolver that is late once.
type thinSpan struct {
	Compared string    `json:"compared"` // the record's id, domain, host and token
	Since    time.Time `json:"since"`    // the first check
	Last     time.Time `json:"last"`
	Checks   int       `json:"checks"`
}

// ThinProof says of a proof that was accepted although too few name servers answered for
// how long that was so.
type ThinProof struct {
	Since  time.Time `json:"since"`  // the first check of the time
	Checks int       `json:"checks"` // with the last one
}

func (t ThinProof) String() string {
	return fmt.Sprintf("as a thin proof: too few name servers answered; those that did, and all resolvers, had the value since %s, in %d checks",
		t.Since.UTC().Format(time.RFC3339), t.Checks)
}

// thin returns the row's span with this proof; nil: the proof is not thin, or never to be
// accepted. What a sweep has taken away, a sweep gives back by a full proof alone. Where the PATCH
// of a thin proof may have landed already, however long ago that was is no gap: nothing has
// spoken against the token since.
func (h *confirm) thin(job Job, p VerifyPayload, former *intent, d apiclient.DiscoveryDomain, v dnscheck.Verdict) *thinSpan {
	if !v.Thin || h.cfg.ThinProofAfter <= 0 || p.bySweep() {
		return nil
	}
	var before thinSpan
	var contested time.Time
	readMark(job, keptThin, &before)
	readMark(job, keptContested, &contested)
	now := h.cfg.Now().UTC()
	span := thinSpan{
		Compared: fmt.Sprintf("%s %s %s", d.ID, strings.ToLower(d.Domain), tokenOf(d.VerificationHost, d.VerificationTXT)),
		Since:    now, Last: now, Checks: 1,
	}
	whole := now.Sub(before.Last) <= h.cfg.ThinProofAfter/thinGaps || former != nil && former.proves(d) && former.isThin()
	if before.Compared == span.Compared && before.Since.After(contested) && whole {
		span.Since, span.Checks = before.Since, before.Checks+1
	}
	return &span
}

// readMark reads a mark of the row; one that is not there, or is of another version, leaves
// the value as it is.
func readMark[M any](job Job, name string, value *M) {
	var read M
	if json.Unmarshal(job.kept[name], &read) == nil {
		*value = read
	}
}

// isThin reports whether the PATCH was made for a thin proof.
func (in intent) isThin() bool {
	proof, err := ReadEvidence(in.Proof)
	return err == nil && proof.ThinProof != nil
}

// untilNext returns when a row is looked at again that had a thin proof lately: one check
// that nobody answers must leave no gap.
func untilNext(job Job, cfg Config, at time.Time, usual time.Duration) time.Duration {
	var span thinSpan
	readMark(job, keptThin, &span)
	if cfg.ThinProofAfter <= 0 || at.Sub(span.Last) > cfg.ThinProofAfter/thinGaps {
		return usual
	}
	return min(usual, cfg.ThinProofAfter/(2*thinGaps))
}

// accepted reports whether the span has lasted long enough.
func (s *thinSpan) accepted(after time.Duration) bool {
	return s != nil && s.Last.Sub(s.Since) >= after && s.Checks > thinGaps
}

// proof is the span as evidence; nil: there is none.
func (s *thinSpan) proof() *ThinProof {
	if s == nil {
		return nil
	}
	return &ThinProof{Since: s.Since.Truncate(time.Second), Checks: s.Checks}
}

// thinly has the span kept, and returns when the row is looked at again: often enough that
// one check that is not answered leaves no gap, and as soon as the span is long enough.
func (l *leavings) thinly(span thinSpan, after, usual time.Duration) (time.Duration, error) {
	l.at = span.Last
	l.accepted = span.Since.Add(after)
	return min(usual, after/(2*thinGaps), l.accepted.Sub(l.at)), l.mark(keptThin, span)
}
