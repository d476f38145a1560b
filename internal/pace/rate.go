package pace

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"orgops/internal/untrusted"
)

// Rate is a number of requests per time. The zero Rate is no limit.
type Rate struct {
	Count float64
	Per   time.Duration
}

// Rates outside of these bounds are taken for mistakes: a lower one is practically a
// standstill, a higher one is more than a Redis can serve.
const (
	minPerSecond = 1.0 / 3600
	maxPerSecond = 100_000
)

var units = []struct {
	name string
	per  time.Duration
}{{"s", time.Second}, {"min", time.Minute}, {"h", time.Hour}}

// ParseRate reads "16/s", "0.5/s", "150/min", "1000/h" or "unlimited".
func ParseRate(text string) (Rate, error) {
	if text == "unlimited" {
		return Rate{}, nil
	}
	wrong := func(rule string) (Rate, error) {
		return Rate{}, fmt.Errorf("%s: %s", untrusted.Quote(text, 40), rule)
	}
	const forms = `want a form such as 16/s, 0.5/s, 150/min, 1000/h, or "unlimited"`
	count, unit, ok := strings.Cut(text, "/")
	n, err := strconv.ParseFloat(count, 64)
	// ParseFloat alone would also take "Inf", "0x1p4", "1e3" and "1_000".
	if !ok || err != nil || strings.Trim(count, "0123456789.") != "" {
		return wrong(forms)
	}
	for _, u := range units {
		if u.name != unit {
			continue
		}
		r := Rate{Count: n, Per: u.per}
		if per := r.PerSecond(); per < minPerSecond || per > maxPerSecond {
			return wrong(fmt.Sprintf("want at least 1/h and at most %d/s", int(maxPerSecond)))
		}
		return r, nil
	}
	return wrong(forms)
}

// IsUnlimited reports whether there is no limit.
func (r Rate) IsUnlimited() bool { return r.Count == 0 }

// PerSecond returns the rate in requests per second, +Inf without a limit.
func (r Rate) PerSecond() float64 {
	if r.IsUnlimited() {
		return math.Inf(1)
	}
	return r.Count / r.Per.Seconds()
}

// String returns the rate in the form of [ParseRate].
func (r Rate) String() string {
	if r.IsUnlimited() {
		return "unlimited"
	}
	for _, u := range units {
		if u.per == r.Per {
			return strconv.FormatFloat(r.Count, 'f', -1, 64) + "/" + u.name
		}
	}
	return strconv.FormatFloat(r.PerSecond(), 'f', -1, 64) + "/s"
}

// Limit is the rate that a tenant allows, and the part of it that is left to others.
type Limit struct {
	Rate Rate
	// Burst is how many requests may be sent at once after a rest; at least 1.
	Burst int
	// Reserve is the share, 0 to 0.95, that is left to other callers of the tenant, above all
	// its users' logins.
	Reserve float64
	// SweepShare is the share, 0 to 1, of the rest that sweeps get; 0: a fifth.
	SweepShare float64
}

// maxReserve leaves a twentieth: less would be practically a standstill.
const maxReserve = 0.95

// Effective returns rate and burst after the reserve.
func (l Limit) Effective() (Rate, int) {
	left := 1 - min(max(l.Reserve, 0), maxReserve)
	const noise = 1e-9 // of binary fractions: 50 * (1 - 0.9) is 5
	return Rate{Count: l.Rate.Count * left, Per: l.Rate.Per}, max(1, int(math.Floor(float64(l.Burst)*left+noise)))
}

// DefaultSweepShare is the share of sweeps unless one is set.
const DefaultSweepShare = 0.2

// Sweeps returns the part of the effective rate and burst that sweeps get.
func (l Limit) Sweeps() (Rate, int) {
	rate, burst := l.Effective()
	share := min(l.SweepShare, 1)
	if share <= 0 {
		share = DefaultSweepShare
	}
	return Rate{Count: rate.Count * share, Per: rate.Per}, int(float64(burst) * share)
}

// latencyDiffers is the usual difference between the latencies of two requests to the API: a
// request that overtakes another one reaches the bucket earlier than planned.
const latencyDiffers = 200 * time.Millisecond

// untouched returns how many permits of the API's bucket are never taken, by the level that the
// API reports: the reserve, and a margin so that requests that overtake each other do not find
// the bucket empty. It costs no rate: the bucket fills as fast at any level but the highest.
func (l Limit) untouched() int {
	if l.Burst <= 1 {
		return 0
	}
	const noise = 1e-9
	reserve := int(math.Floor(float64(l.Burst)*min(max(l.Reserve, 0), maxReserve) + noise))
	margin := math.Ceil(min(l.Rate.PerSecond()*latencyDiffers.Seconds(), float64(l.Burst)/4))
	return min(max(reserve, int(margin)), l.Burst-1)
}
