package dispatch

import (
	"math"
	"time"
)

// Permits is the share of the tenant's pace that may be released: the permits of one second,
// or those in its bucket while no work is outstanding. The zero Permits is empty.
type Permits struct {
	left  float64
	burst float64 // of left, those of the bucket
	at    time.Time
}

// Refill adds the permits since the last call at a rate in requests per second.
func (p *Permits) Refill(now time.Time, perSecond float64) {
	if math.IsInf(perSecond, 1) {
		p.left, p.at = math.Inf(1), now
		return
	}
	if p.at.IsZero() || math.IsInf(p.left, 1) {
		p.left = max(perSecond, p.burst)
	} else {
		p.left += now.Sub(p.at).Seconds() * perSecond
	}
	// A rate below one a second still releases a row at a time.
	p.left, p.at = min(p.left, max(perSecond, 1, p.burst)), now
}

// Burst sets how many permits of the tenant's bucket no outstanding work will take: a small
// run begins whole, and is not stretched over seconds.
func (p *Permits) Burst(permits float64) {
	p.burst = max(permits, 0)
	p.left = max(p.left, p.burst)
}

// Rows returns how many of n rows the permits allow. A row that costs more than a second
// gives is allowed when the permits are full.
func (p *Permits) Rows(n int, cost float64) int {
	if cost <= 0 || math.IsInf(p.left, 1) {
		return n
	}
	if p.left < 1 && p.left < cost {
		return 0
	}
	return min(n, max(1, int(p.left/cost)))
}

// Spend takes the permits of released rows. They may be overdrawn by one row.
func (p *Permits) Spend(rows int, cost float64) {
	p.left -= float64(rows) * cost
	p.burst = max(p.burst-float64(rows)*cost, 0)
}
