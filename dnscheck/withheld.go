package dnscheck

import (
	"context"
	"sync"
)

// A resolver that validates, and finds an answer bogus, says SERVFAIL. Some, BIND 9.18 among them, give no reason with it (RFC 8914),
// so that a veto looks like a failure. Queried with CD, checking disabled, such a resolver gives the answer all the same (RFC 4035
// section 3.2.2).

// vetoed returns the proof, or Unknown with ReasonDNSSEC if a resolver that said SERVFAIL returns an answer with CD.
func (c *Checker) vetoed(ctx context.Context, proven Verdict, token string) (Verdict, error) {
	withheld := make([]bool, len(proven.Observations))
	var asking sync.WaitGroup
	for i, o := range proven.Observations {
		if o.Authority || o.Reason != ReasonServFail {
			continue
		}
		for _, v := range c.resolvers {
			if v.resolver.Name == o.Resolver {
				v.unchecked = true
				asking.Go(func() {
					withheld[i] = v.see(ctx, proven.Host, token).State != Unknown
				})
			}
		}
	}
	asking.Wait()
	if ctx.Err() != nil {
		return Verdict{}, ended(ctx, proven.Host)
	}
	for i, is := range withheld {
		if is {
			proven = proven.doubted(ReasonDNSSEC)
			proven.Observations[i].Reason, proven.Observations[i].Err = ReasonDNSSEC, "SERVFAIL, and an answer where checking is disabled (CD)"
		}
	}
	return proven, nil
}
