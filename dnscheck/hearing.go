package dnscheck

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/miekg/dns"
)

// hearAgain is for how long a resolver that was heard, or asked for a sign of life, is not asked for another.
const hearAgain = 30 * time.Second

// ResolverState is what is known of one of a Checker's resolvers.
type ResolverState struct {
	Name        string
	Operator    string    // who runs it, as Operators has it
	Perspective string    // its name, "default" where the resolver names none
	InTheClear  bool      // as of the Resolver
	Lies        string    // what it makes up, as far as the canary zone shows: then it has no vote; empty: it has one
	HeardAt     time.Time // when it last answered of use to anybody; zero: not yet
	Silent      string    // why it gave no sign of life when it was last asked, and has not been heard since; empty: it did
}

// Voting tells whether its word counts.
func (s ResolverState) Voting() bool { return s.Lies == "" }

// Resolvers returns what is known of the resolvers, in the order of Config.Resolvers, and asks nobody.
func (c *Checker) Resolvers() []ResolverState {
	all := make([]ResolverState, 0, len(c.resolvers))
	for _, v := range c.resolvers {
		v.signs.mu.Lock()
		all = append(all, ResolverState{
			Name: v.resolver.Name, Operator: v.operator, Perspective: v.resolver.perspective(),
			InTheClear: v.resolver.InTheClear(), Lies: v.canary.madeUp(), HeardAt: v.signs.heard, Silent: v.signs.why,
		})
		v.signs.mu.Unlock()
	}
	return all
}

// Hear asks those resolvers for a sign of life that were not heard for half a minute, each once, all side by side, and
// returns what is known then. It costs one question for the root's name servers each, which every resolver has at hand. The
// end of ctx leaves those out that have not answered by then.
func (c *Checker) Hear(ctx context.Context) []ResolverState {
	var asking sync.WaitGroup
	for _, v := range c.resolvers {
		if v.signs.due(time.Now()) {
			asking.Go(func() { v.hear(ctx) })
		}
	}
	asking.Wait()
	return c.Resolvers()
}

func (v recursive) hear(ctx context.Context) {
	r, _, err := v.ask(ctx, v.resolver.Transport, rootServers)
	switch {
	case err == nil && r.rcode != dns.RcodeSuccess && r.rcode != dns.RcodeNameError:
		err = fmt.Errorf("it answers %s when asked for the root's name servers", r.rcodeName())
	case err == nil || errors.Is(err, context.Canceled):
		return // it answered, or had no time to
	case ctx.Err() != nil:
		err = errors.New("no answer in time")
	}
	v.signs.mu.Lock()
	defer v.signs.mu.Unlock()
	v.signs.silent, v.signs.why = time.Now(), err.Error()
}

// ask asks the resolver, and takes note if it answers.
func (v recursive) ask(ctx context.Context, transport string, q query) (reply, string, error) {
	r, over, err := v.exchange.askFor(ctx, v.resolver, transport, q)
	// Any other answer may be all that it ever says, or be about the name.
	if err == nil && (r.rcode == dns.RcodeSuccess || r.rcode == dns.RcodeNameError) {
		v.signs.mu.Lock()
		defer v.signs.mu.Unlock()
		v.signs.heard, v.signs.why = time.Now(), ""
	}
	return r, over, err
}

// signs are when a resolver last answered, and when it last gave no sign of life.
type signs struct {
	mu            sync.Mutex
	heard, silent time.Time
	why           string // it was silent, and has not been heard since
}

// due reports whether the resolver is to be asked for a sign of life.
func (s *signs) due(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return now.Sub(s.heard) >= hearAgain && now.Sub(s.silent) >= hearAgain
}
