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
	Name string
	// Operator is who runs it, as [Operators] has it; Perspective its name, "default" where the resolver names none.
	Operator, Perspective string
	// InTheClear is that of the [Resolver].
	InTheClear bool
	// Lies is what it makes up, as far as the canary zone shows: then it has no vote. Empty: it has one.
	Lies string
	// HeardAt is when it last answered of use to anybody; zero: not yet.
	HeardAt time.Time
	// Silent is why it gave no sign of life when it was last asked for one, and has not been heard since. Empty: it did, or was
	// never asked.
	Silent string
}

// Voting tells whether its word counts.
func (s ResolverState) Voting() bool { return s.Lies == "" }

// Resolvers tells what is known of the resolvers, in the order of Config.Resolvers, and asks nobody.
func (c *Checker) Resolvers() []ResolverState {
	all := make([]ResolverState, 0, len(c.panel.resolvers))
	for _, v := range c.panel.resolvers {
		s := v.signs.state()
		s.Name, s.Operator, s.Perspective = v.resolver.Name, v.operator, v.resolver.perspective()
		s.InTheClear, s.Lies = v.resolver.InTheClear(), v.canary.madeUp()
		all = append(all, s)
	}
	return all
}

// Hear asks those resolvers for a sign of life that were not heard for half a minute, each once, all side by side, and tells
// what is known then. What it costs is one question for the root's name servers each, which every resolver has at hand. The
// end of ctx leaves those out that have not answered by then.
func (c *Checker) Hear(ctx context.Context) []ResolverState {
	var asking sync.WaitGroup
	for _, v := range c.panel.resolvers {
		if v.signs.due(time.Now()) {
			asking.Go(func() { v.hear(ctx) })
		}
	}
	asking.Wait()
	return c.Resolvers()
}

func (v recursive) hear(ctx context.Context) {
	r, _, err := v.ask(ctx, v.resolver.Transport, query{name: ".", kind: dns.TypeNS})
	switch {
	case err == nil && r.rcode != dns.RcodeSuccess && r.rcode != dns.RcodeNameError:
		err = fmt.Errorf("it answers %s when asked for the root's name servers", r.rcodeName())
	case errors.Is(err, context.Canceled):
		err = nil // it had no time to answer
		v.signs.unasked()
	case err != nil && ctx.Err() != nil:
		err = errors.New("no answer in time")
	}
	if err != nil {
		v.signs.silent(err)
	}
}

// ask asks the resolver, and takes note if it answers.
func (v recursive) ask(ctx context.Context, transport string, q query) (reply, string, error) {
	r, over, err := v.exchange.askFor(ctx, v.resolver, transport, q)
	// Any other answer may be all that it ever says, or be about the name.
	if err == nil && (r.rcode == dns.RcodeSuccess || r.rcode == dns.RcodeNameError) {
		v.signs.answered()
	}
	return r, over, err
}

// signs are when a resolver answered, and when it did not.
type signs struct {
	mu    sync.Mutex
	at    time.Time // it answered
	asked time.Time // for a sign of life
	why   string    // there was none
}

func (s *signs) answered() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at, s.why = time.Now(), ""
}

func (s *signs) silent(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.why = err.Error()
}

// due tells whether it is to be asked for a sign of life now, and has the next one who comes not ask.
func (s *signs) due(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Sub(s.at) < hearAgain || now.Sub(s.asked) < hearAgain {
		return false
	}
	s.asked = now
	return true
}

// unasked has the next one ask who comes: this one could not stay.
func (s *signs) unasked() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = time.Time{}
}

func (s *signs) state() ResolverState {
	s.mu.Lock()
	defer s.mu.Unlock()
	return ResolverState{HeardAt: s.at, Silent: s.why}
}
