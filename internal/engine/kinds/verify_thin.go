package kinds

// A proof is thin if it lacks only the answers of silent name servers
// ([dnscheck.Verdict.Thin]). Half of a zone's servers are often dead; but an attacker that
// controls the others can silence them, and one check cannot distinguish the two. A tenant
// may accept such a proof once every check for some time had the same result: an attack
// would have to last as long, unnoticed by the zone's operator.

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"time"

	"orgops/apiclient"
	"orgops/dnscheck"
)

const (
	// minThinProofAfter is the shortest VerifyConfig.ThinProofAfter: a quarter of it
	// without a check restarts the time.
	minThinProofAfter = time.Hour
	// thinGaps is the number of parts into which the checks divide that time at least. A
	// longer gap restarts the time, so there are at least five checks.
	thinGaps = 4
)

// CheckThinProofAfter checks a setting of [VerifyConfig].ThinProofAfter.
func CheckThinProofAfter(after time.Duration) error {
	if after != 0 && after < minThinProofAfter {
		return fmt.Errorf("thin-proof-after: want 0 (off) or at least %s, got %s", minThinProofAfter, after)
	}
	return nil
}

// ThinSpan is the time for which the proofs of a row have been thin. An answer against the
// token ends it. A check that has no answer is not counted and does not end it, unless the
// gap gets too long: an outage says nothing about the zone.
type ThinSpan struct {
	Compared []byte    `json:"c"` // a hash of the record's id, domain, host and token
	Since    time.Time `json:"s"` // the first check
	Last     time.Time `json:"l"`
	Checks   int       `json:"n"`
}

// thin returns the row's span with this proof; nil if the proof is not thin or such proofs
// are not accepted, as from a sweep. If the PATCH of a thin proof may have landed, the time
// since then is no gap: no answer was against the token.
func (v *verification) thin(d apiclient.DiscoveryDomain, verdict dnscheck.Verdict) *ThinSpan {
	if !verdict.Thin || v.cfg.ThinProofAfter <= 0 || v.bySweep() {
		return nil
	}
	now := v.x.Now().UTC()
	record := fmt.Sprintf("%s %s %s\x00%s", d.ID, strings.ToLower(d.Domain), strings.ToLower(strings.TrimSuffix(d.VerificationHost, ".")), d.VerificationTXT)
	sum := sha256.Sum256([]byte(record))
	span := &ThinSpan{Compared: sum[:8], Since: now, Last: now, Checks: 1}
	before := v.state.Thin
	if before == nil || string(before.Compared) != string(span.Compared) {
		return span
	}
	if now.Sub(before.Last) <= v.cfg.ThinProofAfter/thinGaps || v.former != nil && v.former.evidence.ThinProof != nil {
		span.Since, span.Checks = before.Since, before.Checks+1
	}
	return span
}

// accepted reports whether the span has lasted long enough.
func (s *ThinSpan) accepted(after time.Duration) bool {
	return s != nil && s.Last.Sub(s.Since) >= after && s.Checks > thinGaps
}

// proof returns the span as evidence; nil if there is none.
func (s *ThinSpan) proof() *ThinProof {
	if s == nil {
		return nil
	}
	return &ThinProof{Since: s.Since.Truncate(time.Second), Checks: s.Checks}
}

// untilNext returns when to check a row again: if it had a thin proof lately, so often that
// one check without an answer leaves no gap, and as soon as the span is long enough.
func (v *verification) untilNext(now time.Time, usual time.Duration) time.Duration {
	span, after := v.state.Thin, v.cfg.ThinProofAfter
	if span == nil || after <= 0 || now.Sub(span.Last) > after/thinGaps {
		return usual
	}
	usual = min(usual, after/(2*thinGaps))
	if left := span.Since.Add(after).Sub(now); left > 0 {
		usual = min(usual, left)
	}
	return usual
}
