package dnscheck

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
)

const (
	// canaryEvery is how long it is believed that a resolver does not make answers up.
	canaryEvery = 10 * time.Minute
	// canaryAgain is when a resolver is asked again that has made one up, or has not answered.
	canaryAgain = time.Minute
	// canaryLabel is how many bytes the random label has, before the zone and its dot.
	canaryLabel = 32
)

// canary knows whether a resolver makes answers up: it is asked, now and then, for a name beneath a zone that has none
// such. A resolver that has an answer to that has one to everything, to a token's host too.
type canary struct {
	zone  string // with the last dot
	told  func(resolver string, trusted bool, why string)
	asked *memory[bool]          // as long as what is known is believed
	lies  atomic.Pointer[string] // what it made up when it last answered
}

// newCanary gives nil without a zone.
func newCanary(c Config) *canary {
	if c.CanaryZone == "" {
		return nil
	}
	return &canary{zone: dns.Fqdn(c.CanaryZone), told: c.Vote, asked: newMemory[bool]()}
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

// lying returns what the resolver makes up, empty if nothing is known of that. It asks if it is time to.
func (c *canary) lying(ctx context.Context, v recursive) string {
	_, _ = c.asked.find(ctx, c.zone, func() (bool, time.Duration, error) {
		believed, err := c.ask(ctx, v)
		return true, believed, err
	})
	return c.madeUp()
}

// madeUp returns what the resolver makes up as far as is known now; empty: nothing, or there is no canary.
func (c *canary) madeUp() string {
	if c == nil {
		return ""
	}
	if lies := c.lies.Load(); lies != nil {
		return *lies
	}
	return ""
}

// ask asks the resolver, and returns for how long what is known then is believed. Without an answer it stands as before.
func (c *canary) ask(ctx context.Context, v recursive) (time.Duration, error) {
	limited, cancel := context.WithTimeout(ctx, v.exchange.timeout)
	defer cancel()
	r, _, err := v.ask(limited, v.resolver.Transport, query{name: canaryName() + "." + c.zone, kind: dns.TypeTXT})
	var lies string
	if err == nil {
		lies, err = madeUp(r)
	}
	before := c.madeUp()
	switch {
	case err != nil && ctx.Err() != nil:
		return 0, errors.Join(errAbandoned, ctx.Err())
	case err != nil:
		return canaryAgain, nil
	}
	c.lies.Store(&lies)
	if (lies == "") != (before == "") && c.told != nil {
		c.told(v.resolver.Name, lies == "", lies)
	}
	if lies != "" {
		return canaryAgain, nil
	}
	return canaryEvery, nil
}

func canaryName() string {
	label := make([]byte, canaryLabel/2)
	_, _ = rand.Read(label) // never fails, as in randomID
	return hex.EncodeToString(label)
}

const wildcardHint = " (a wildcard in the canary zone, or a zone signed so that it denies less, reads the same)"

// madeUp tells what a reply says of a name that does not exist, if it is anything but that. The error: it says nothing.
func madeUp(r reply) (string, error) {
	_, policy := withheld(r)
	switch {
	case policy || refersElsewhere(r) && len(r.answer) == 0:
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
