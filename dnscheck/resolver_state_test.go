package dnscheck_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"

	"orgops/dnscheck"
)

// known returns the resolvers' states without their times.
func known(all []dnscheck.ResolverState) (short []string) {
	for _, s := range all {
		text := s.Name
		if s.AnsweredAt.IsZero() {
			text += " unheard"
		}
		if s.Silent != "" {
			text += " silent: " + s.Silent
		}
		short = append(short, text)
	}
	return short
}

// root answers with of for the root, and with rest for all other names.
func root(of, rest zone) zone {
	return func(q *dns.Msg) *dns.Msg {
		if q.Question[0].Name == "." {
			return of(q)
		}
		return rest(q)
	}
}

func TestProbe(t *testing.T) {
	dead := zone(func(q *dns.Msg) *dns.Msg { time.Sleep(long); return q })
	const late = " silent: no answer in time"
	synctest.Test(t, func(t *testing.T) {
		var asked counter
		mute := false
		moody := zone(func(q *dns.Msg) *dns.Msg {
			asked.add(q)
			if mute {
				return refused(q)
			}
			return rcode(q, dns.RcodeSuccess)
		})
		c := inMemory(t, dnscheck.Config{}, root(moody, yes), root(moody, yes), dead)
		hear := func(wait time.Duration, total int, want ...string) {
			t.Helper()
			time.Sleep(wait)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if diff := cmp.Diff(want, known(c.Probe(ctx))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if got := len(asked.seen()); got != total {
				t.Errorf("%d questions so far, want %d", got, total)
			}
		}
		if diff := cmp.Diff([]string{"r0 unheard", "r1 unheard", "r2 unheard"}, known(c.Resolvers())); diff != "" {
			t.Errorf("before anybody was asked (-want +got):\n%s", diff)
		}
		hear(0, 2, "r0", "r1", "r2 unheard"+late)
		hear(time.Second, 2, "r0", "r1", "r2 unheard"+late) // within the interval of probes
		mute = true
		const refuses = " silent: it answers REFUSED when asked for the root's name servers"
		hear(time.Minute, 4, "r0"+refuses, "r1"+refuses, "r2 unheard"+late)
		// Answers in a proof count as well.
		if _, err := c.Prove(t.Context(), host, token); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"r0", "r1", "r2 unheard" + late}, known(c.Resolvers())); diff != "" {
			t.Errorf("after a proof (-want +got):\n%s", diff)
		}
		hear(0, 4, "r0", "r1", "r2 unheard"+late)
	})
}

// TestCancelledProbe checks that a canceled probe changes no state, and that the next probe
// queries again.
func TestCancelledProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked counter
		c := inMemory(t, dnscheck.Config{}, func(q *dns.Msg) *dns.Msg {
			asked.add(q)
			time.Sleep(time.Second)
			return rcode(q, dns.RcodeSuccess)
		})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(500*time.Millisecond, cancel)
		if diff := cmp.Diff([]string{"r0 unheard"}, known(c.Probe(ctx))); diff != "" {
			t.Errorf("left (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"r0"}, known(c.Probe(t.Context()))); diff != "" {
			t.Errorf("stayed (-want +got):\n%s", diff)
		}
		if got := len(asked.seen()); got != 2 {
			t.Errorf("%d questions, want 2", got)
		}
	})
}
