package dnscheck

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
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
// such. One that has an answer to that has one to everything, to a token's host too; so would one that turns
// NXDOMAIN into something else.
type canary struct {
	zone string // with the last dot
	told func(resolver string, trusted bool, why string)

	mu     sync.Mutex
	asked  time.Time     // when it is to be asked next
	known  bool          // it has answered once
	lies   string        // what it made up; empty: nothing
	flight chan struct{} // closed when the question under way is over; nil: none is
}

// newCanary gives nil without a zone.
func newCanary(c Config) *canary {
	if c.CanaryZone == "" {
		return nil
	}
	return &canary{zone: dns.Fqdn(c.CanaryZone), told: c.Vote}
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

// lying tells what the resolver makes up, empty if nothing is known of that. It asks if it is time to; whoever comes
// meanwhile goes by what is known, and waits if nothing is.
func (c *canary) lying(ctx context.Context, v recursive) string {
	for {
		c.mu.Lock()
		due, flight := !time.Now().Before(c.asked), c.flight
		known, lies := c.known, c.lies
		mine := due && flight == nil && ctx.Err() == nil
		if mine {
			c.flight = make(chan struct{})
		}
		c.mu.Unlock()
		switch {
		case mine:
			c.ask(ctx, v)
			continue
		case !due, known, ctx.Err() != nil:
			return lies
		}
		select {
		case <-flight:
		case <-ctx.Done():
		}
	}
}

// isLying is what is known now; nobody is asked. Without a canary nothing is.
func (c *canary) isLying() bool { return c.madeUp() != "" }

// madeUp is what it makes up as far as is known now; empty: nothing.
func (c *canary) madeUp() string {
	if c == nil {
		return ""
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lies
}

// ask asks, and writes down what is known then. What is cut short by its context has said nothing.
func (c *canary) ask(ctx context.Context, v recursive) {
	limited, cancel := context.WithTimeout(ctx, v.exchange.timeout)
	defer cancel()
	r, _, err := v.ask(limited, v.resolver.Transport, query{name: canaryName() + "." + c.zone, kind: dns.TypeTXT})
	var lies string
	if err == nil {
		lies, err = madeUp(r)
	}
	c.mu.Lock()
	close(c.flight)
	c.flight = nil
	if ctx.Err() != nil && err != nil {
		c.mu.Unlock()
		return
	}
	c.asked = time.Now().Add(canaryAgain)
	if err != nil { // it stands as before
		c.mu.Unlock()
		return
	}
	if lies == "" {
		c.asked = time.Now().Add(canaryEvery)
	}
	news := (lies == "") != (c.lies == "")
	c.known, c.lies = true, lies
	c.mu.Unlock()
	if news && c.told != nil {
		c.told(v.resolver.Name, lies == "", lies)
	}
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
