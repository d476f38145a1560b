package dnscheck

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/miekg/dns"
)

// probeInterval is for how long a resolver that has answered, or was probed, is not probed.
const probeInterval = 30 * time.Second

var rootServers = query{name: ".", kind: dns.TypeNS}

// ResolverState is the current state of one resolver of a Checker.
type ResolverState struct {
	Name        string
	Operator    string    // as returned by Operators
	Perspective string    // "default" if the resolver names none
	InTheClear  bool      // as of the Resolver
	AnsweredAt  time.Time // of its last answer; zero: none yet
	Silent      string    // the error of the last probe, if it has not answered since
}

// Resolvers returns the states of the resolvers, in the order of Config.Resolvers, without
// any query.
func (c *Checker) Resolvers() []ResolverState {
	all := make([]ResolverState, 0, len(c.resolvers))
	for _, r := range c.resolvers {
		s := ResolverState{
			Name: r.resolver.Name, Operator: r.operator, Perspective: r.resolver.perspective(),
			InTheClear: r.resolver.InTheClear(),
		}
		r.status.mu.Lock()
		s.AnsweredAt, s.Silent = r.status.answeredAt, r.status.problem
		r.status.mu.Unlock()
		all = append(all, s)
	}
	return all
}

// Probe queries each resolver that has not answered for half a minute for the root's name
// servers, all at once, and returns the states of the resolvers. If ctx ends first, states
// without an answer stay as they were.
func (c *Checker) Probe(ctx context.Context) []ResolverState {
	var probes sync.WaitGroup
	for _, r := range c.resolvers {
		if r.status.isDue(time.Now()) {
			probes.Go(func() { r.probe(ctx) })
		}
	}
	probes.Wait()
	return c.Resolvers()
}

func (c resolverClient) probe(ctx context.Context) {
	r, _, err := c.query(ctx, c.resolver.Transport, rootServers)
	switch {
	case err == nil && !r.isAnswer():
		err = fmt.Errorf("it answers %s when asked for the root's name servers", r.rcodeName())
	case err == nil || errors.Is(err, context.Canceled):
		return
	case ctx.Err() != nil:
		err = errors.New("no answer in time")
	}
	c.status.mu.Lock()
	defer c.status.mu.Unlock()
	c.status.failedAt, c.status.problem = time.Now(), err.Error()
}

// isDue reports whether the resolver should be probed.
func (s *resolverStatus) isDue(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return now.Sub(s.answeredAt) >= probeInterval && now.Sub(s.failedAt) >= probeInterval
}
