package handlers

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"orgops/dnscheck"
)

const (
	// defaultGiveUp is how long a token may take to appear if the run does not say.
	defaultGiveUp = 72 * time.Hour
	// moreForUnknown is how long beyond that a row stays open whose checks have no
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
	wait = time.Duration(float64(wait) * (0.9 + 0.2*rand.Float64()))
	// A second more than the TTL: the cache's clock may be behind.
	return max(wait, min(negativeTTL, maxNegativeTTL)+time.Second)
}

// start returns when the row's time began: at its submission, or at its first execution
// if that was after its time was up.
func (v *verification) start() time.Time {
	first := v.row.FirstBegun
	if first.IsZero() {
		first = v.x.Now()
	}
	if first.Before(v.x.Submitted.Add(v.giveUp())) {
		return v.x.Submitted
	}
	return first
}

func (v *verification) giveUp() time.Duration { return cmp.Or(v.x.GiveUp, defaultGiveUp) }

// end returns when the row's time is up, by the state that a check or proof has found.
func (v *verification) end(s dnscheck.State) time.Time {
	end := v.start().Add(v.giveUp())
	if s != dnscheck.Absent {
		end = end.Add(moreForUnknown)
	}
	return end
}

// changed stores the zone's answer, and returns from when the row's age counts: if the
// answer has changed, someone is working on the zone and the token is likely to come soon.
// No answer is no change. The age is reset only once checks have become hourly, so that a
// zone which always answers differently is not checked all the time.
func (v *verification) changed(verdict dnscheck.Verdict, now time.Time) (since time.Time) {
	s := &v.state
	since = v.start()
	if s.Since.After(since) {
		since = s.Since
	}
	if verdict.State != dnscheck.Absent {
		return since
	}
	found := digest(verdict)
	if s.Found != nil && !bytes.Equal(s.Found, found) && now.Sub(since) > checksDouble+hourly {
		s.Since, since = now, now
	}
	s.Found = found
	return since
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
