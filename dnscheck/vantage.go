package dnscheck

import (
	"context"
	"errors"
	"time"

	"github.com/miekg/dns"
)

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

// observe looks for the token at the host. What a resolver says that makes answers up counts for nothing. It returns at
// once when the context ends: what it has seen so far says nothing.
func (v recursive) observe(ctx context.Context, host, token string) Observation {
	if v.canary == nil {
		return v.see(ctx, host, token)
	}
	lies := make(chan string, 1)
	go func() { lies <- v.canary.lying(ctx, v) }() // next to the question; waited for below
	o := v.see(ctx, host, token)
	why := <-lies
	if why == "" {
		return o
	}
	return Observation{
		Resolver: o.Resolver, Operator: o.Operator, Perspective: o.Perspective, Transport: o.Transport, Took: o.Took,
		State: Unknown, Reason: ReasonUntrusted, Err: "the resolver is not counted: " + why,
	}
}

// see asks the resolver, and again for the target where an alias leads out of the answer.
func (v recursive) see(ctx context.Context, host, token string) Observation {
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
			return Observation{}
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
			return o.with(found)
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
