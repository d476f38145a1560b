package dnscheck

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/miekg/dns"
)

type resolverClient struct {
	resolver Resolver
	operator string
	exchange *exchange
	status   *resolverStatus
}

// queryToken queries the host, and then the targets of aliases that the answers omit. At the end
// of the context the observation is empty.
func (c resolverClient) queryToken(ctx context.Context, q question) Observation {
	start := time.Now()
	path := newAliasPath(q.host)
	authenticated := true
	o := Observation{Resolver: c.resolver.Name, Operator: c.operator, Perspective: c.resolver.perspective(), Transport: c.resolver.Transport}
	for {
		var r reply
		var err error
		// If UDP failed for one name, the next one is queried over TCP.
		r, o.Transport, err = c.query(ctx, o.Transport, query{name: path.name, kind: dns.TypeTXT, checkingDisabled: q.checkingDisabled})
		if ctx.Err() != nil {
			return Observation{}
		}
		f := exchangeFailure(err)
		o.RCode, o.EDE, o.Authenticated = "", "", false
		if err == nil {
			o.RCode, o.EDE = r.rcodeName(), r.errorText()
			authenticated = authenticated && r.authenticated
			o.Authenticated = authenticated
			f = path.read(r, q.token)
			if q.purpose == forDisproof {
				f = f.requireZone(r, path.name).requireNoToken(r, q.token)
			}
		}
		if !f.queryTarget {
			o.Aliases, o.Took = path.targets, time.Since(start)
			return o.with(f)
		}
	}
}

// query sends one query, and records that the resolver answers.
func (c resolverClient) query(ctx context.Context, transport string, q query) (reply, string, error) {
	r, transport, err := c.exchange.query(ctx, c.resolver, transport, q)
	if err == nil && r.isAnswer() { // other response codes may be all that it ever returns
		c.status.answered(time.Now())
	}
	return r, transport, err
}

// exchangeFailure is the finding without a reply.
func exchangeFailure(err error) finding {
	reason := ReasonUnreachable
	if failed, ok := errors.AsType[*exchangeError](err); ok {
		reason = failed.reason
	}
	return unknown(reason, err)
}

func (o Observation) with(f finding) Observation {
	o.State, o.Reason, o.NegativeTTL = f.state, f.reason, f.negativeTTL
	o.Values, o.MoreValues = capValues(f.values)
	if f.err != nil {
		o.Err = f.err.Error()
	}
	return o
}

// resolverStatus is when a resolver last answered, and when a probe last failed.
type resolverStatus struct {
	mu                   sync.Mutex
	answeredAt, failedAt time.Time
	problem              string // of the probe, if the resolver has not answered since
}

func (s *resolverStatus) answered(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answeredAt, s.problem = now, ""
}
