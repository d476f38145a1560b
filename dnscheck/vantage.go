package dnscheck

import (
	"context"
	"errors"
	"time"

	"github.com/miekg/dns"
)

// vantage is a place from which the zone is looked at. Today that is a recursive resolver; the zone's own name servers can
// be another.
type vantage interface {
	// observe looks for the token at the host. It returns at once when the context ends, and false then: what it has seen so
	// far says nothing.
	observe(ctx context.Context, host, token string) (Observation, bool)
}

// recursive is the view through one recursive resolver.
type recursive struct {
	resolver  Resolver
	operator  string
	exchange  *exchange
	canary    *canary // nil: it is taken at its word
	strict    bool    // that there is nothing has to come from a zone
	unchecked bool    // queries have CD: the resolver returns bogus answers too
	signs     *signs
}

// observe looks through the resolver. What one says that makes answers up counts for nothing.
func (v recursive) observe(ctx context.Context, host, token string) (Observation, bool) {
	if v.canary == nil {
		return v.see(ctx, host, token)
	}
	lies := make(chan string, 1)
	go func() { lies <- v.canary.lying(ctx, v) }() // beside the question; waited for below
	o, counts := v.see(ctx, host, token)
	why := <-lies
	if why == "" || !counts {
		return o, counts && ctx.Err() == nil
	}
	return Observation{
		Resolver: o.Resolver, Operator: o.Operator, Perspective: o.Perspective, Transport: o.Transport, Took: o.Took,
		State: Unknown, Reason: ReasonUntrusted, Err: "the resolver is not counted: " + why,
	}, ctx.Err() == nil
}

// see asks the resolver, and again for the target where an alias leads out of the answer.
func (v recursive) see(ctx context.Context, host, token string) (Observation, bool) {
	began := time.Now()
	path := newTrail(host)
	authenticated := true
	o := Observation{Resolver: v.resolver.Name, Operator: v.operator, Perspective: v.resolver.perspective(), Transport: v.resolver.Transport}
	for {
		var r reply
		var err error
		// Once UDP did not do for this name, TCP is asked right away.
		r, o.Transport, err = v.ask(ctx, o.Transport, query{name: path.at, kind: dns.TypeTXT, unchecked: v.unchecked})
		if ctx.Err() != nil {
			return Observation{}, false
		}
		found := unheard(err)
		o.RCode, o.EDE, o.Authenticated = "", "", false
		if err == nil {
			o.RCode, o.EDE = r.rcodeName(), r.errorText()
			authenticated = authenticated && r.authenticated
			o.Authenticated = authenticated
			found = path.read(r, token)
			if v.strict {
				found = found.vouched(r, path.at).unlessHeld(r, token)
			}
		}
		if !found.askOn {
			o.Aliases, o.Took = path.aliases, time.Since(began)
			return o.with(found), true
		}
	}
}

// unheard is the finding where no reply came.
func unheard(err error) finding {
	if failed, ok := errors.AsType[*exchangeError](err); ok {
		return unknown(failed.reason, failed)
	}
	return unknown(ReasonUnreachable, err)
}

// with writes a finding into the observation.
func (o Observation) with(f finding) Observation {
	o.State, o.Reason, o.NegativeTTL = f.state, f.reason, f.negativeTTL
	o.Values, o.MoreValues = evidence(f.values)
	if f.err != nil {
		o.Err = f.err.Error()
	}
	return o
}
