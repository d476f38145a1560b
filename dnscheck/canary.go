package dnscheck

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
)

const (
	canaryInterval = 10 * time.Minute // for which a resolver's correct answer counts
	canaryRetry    = time.Minute      // the interval after a fabricated answer, or none
	canaryLabel    = 26               // the length of the random label below the zone
)

// canary detects whether a resolver makes up answers: it queries a random name in a zone that
// has no such names. A resolver that has an answer for it has one for every name, a token's
// host among them.
type canary struct {
	zone       string // with the final dot
	notify     func(resolver string, trusted bool, why string)
	checked    *cache[bool] // while the last check's result counts
	fabricated atomic.Value // by its last answer: a string
}

// newCanary returns nil without a zone.
func newCanary(zone string, notify func(resolver string, trusted bool, why string)) *canary {
	if zone == "" {
		return nil
	}
	return &canary{zone: dns.Fqdn(zone), notify: notify, checked: newCache[bool]()}
}

func checkCanaryZone(zone string) error {
	if zone == "" {
		return nil
	}
	problem := nameProblem(zone, "a zone in which no name exists but its own")
	if problem == "" && len(zone)+canaryLabel+1 > maxName {
		problem = "is too long: a random label has to fit before it"
	}
	if problem != "" {
		return fmt.Errorf("canary zone %s %s", shown(zone, maxName), problem)
	}
	return nil
}

// fabrication queries the canary zone if that is due, and returns the made-up answer; empty:
// nothing is known of that.
func (c resolverClient) fabrication(ctx context.Context) string {
	if c.canary != nil {
		_, _ = c.canary.checked.load(ctx, c.canary.zone, func() (bool, time.Duration, error) {
			interval, err := c.queryCanary(ctx)
			return true, interval, err
		})
	}
	return c.canary.fabrication()
}

// fabrication returns the made-up part of its last answer; empty: nothing, or no canary.
func (c *canary) fabrication() string {
	if c == nil {
		return ""
	}
	fabricated, _ := c.fabricated.Load().(string)
	return fabricated
}

// queryCanary queries the canary zone, and returns when to do so again. Without an answer the
// vote stays as it was.
func (c resolverClient) queryCanary(ctx context.Context) (time.Duration, error) {
	limited, cancel := context.WithTimeout(ctx, c.exchange.timeout)
	defer cancel()
	fabricated, err := c.testDenial(limited, canaryName()+"."+c.canary.zone, dns.TypeTXT)
	before := c.canary.fabrication()
	switch {
	case err != nil && ctx.Err() != nil:
		return 0, errors.Join(errAbandoned, ctx.Err())
	case err != nil:
		return canaryRetry, nil
	}
	c.canary.fabricated.Store(fabricated)
	if (fabricated == "") != (before == "") && c.canary.notify != nil {
		c.canary.notify(c.resolver.Name, fabricated == "", fabricated)
	}
	if fabricated != "" {
		return canaryRetry, nil
	}
	return canaryInterval, nil
}

func canaryName() string { return strings.ToLower(rand.Text()[:canaryLabel]) }

const wildcardHint = " (a wildcard in the canary zone, or a zone signed so that it denies less, reads the same)"

// fabricationIn describes the answer for a name that does not exist; empty: the reply denies it.
// The error: it is not an answer of the zone.
func fabricationIn(r reply) (string, error) {
	_, refused := notZones(r)
	switch {
	case refused || refersElsewhere(r) && len(r.answer) == 0:
		return "", errors.New("not an answer of the zone")
	case len(r.answer) > 0:
		return fmt.Sprintf("it has %d records for a name that does not exist%s", len(r.answer), wildcardHint), nil
	case r.rcode == dns.RcodeNameError:
		return "", nil
	case r.rcode == dns.RcodeSuccess:
		return "it says that a name exists which does not" + wildcardHint, nil
	}
	return "", fmt.Errorf("answered %s", r.rcodeName())
}

// testDenial queries the resolver for a name that does not exist, as fabricationIn.
func (c resolverClient) testDenial(ctx context.Context, name string, kind uint16) (lies string, err error) {
	r, _, err := c.query(ctx, c.resolver.Transport, query{name: name, kind: kind})
	if err != nil {
		return "", err
	}
	return fabricationIn(r)
}
