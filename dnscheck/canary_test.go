package dnscheck_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"

	"orgops/dnscheck"
)

const canaryZone = "canary.example.net"

// withCanary answers with canary in the canary zone, and with rest for all other names.
func withCanary(canary, rest zone) zone {
	return func(q *dns.Msg) *dns.Msg {
		if dns.IsSubDomain(canaryZone+".", dns.CanonicalName(q.Question[0].Name)) {
			return canary(q)
		}
		return rest(q)
	}
}

// votes records the calls of Config.Vote.
type votes struct {
	mu   sync.Mutex
	told []string
}

func (v *votes) hear(resolver string, trusted bool, why string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	what := "has its vote back"
	if !trusted {
		what, _, _ = strings.Cut(why, " (")
	}
	v.told = append(v.told, resolver+": "+what)
}

func (v *votes) want(t *testing.T, told ...string) {
	t.Helper()
	v.mu.Lock()
	defer v.mu.Unlock()
	slices.Sort(v.told)
	if diff := cmp.Diff(told, v.told); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}

func TestCanary(t *testing.T) {
	rewritten := zone(func(q *dns.Msg) *dns.Msg { return answer(q) })
	alias := zone(func(q *dns.Msg) *dns.Msg { return answer(q, cname(q.Question[0].Name, "ads.example")) })
	both := zone(func(q *dns.Msg) *dns.Msg {
		m := alias(q)
		m.Rcode = dns.RcodeNameError
		return m
	})
	policy := zone(func(q *dns.Msg) *dns.Msg {
		m := yes(q)
		m.SetEdns0(1232, false)
		m.IsEdns0().Option = []dns.EDNS0{&dns.EDNS0_EDE{InfoCode: dns.ExtendedErrorCodeFiltered}}
		return m
	})
	const records, exists = "r0: it has 1 records for a name that does not exist", "r0: it says that a name exists which does not"
	tests := []struct {
		name   string
		zones  []zone
		state  dnscheck.State
		reason dnscheck.Reason
		told   []string
	}{
		{"all are honest", []zone{withCanary(noName, yes), withCanary(noName, yes), withCanary(nothing, noName)}, dnscheck.Present, dnscheck.ReasonFound, nil},
		{"one says yes to everything", []zone{yes, withCanary(noName, yes), withCanary(noName, noName)}, dnscheck.Unknown, dnscheck.ReasonDisagree, []string{records}},
		{"the quorum stays without it", []zone{yes, withCanary(noName, yes), withCanary(noName, yes)}, dnscheck.Present, dnscheck.ReasonFound, []string{records}},
		{"the quorum does not shrink", []zone{yes, yes, withCanary(noName, yes)}, dnscheck.Unknown, dnscheck.ReasonUntrusted, []string{records, "r1" + records[2:]}},
		{"its no counts for nothing either", []zone{withCanary(rewritten, noName), withCanary(noName, noName), withCanary(noName, servfail)}, dnscheck.Unknown, dnscheck.ReasonServFail, []string{exists}},
		{"NXDOMAIN is made NODATA", []zone{withCanary(rewritten, yes), withCanary(noName, yes), withCanary(noName, noName)}, dnscheck.Unknown, dnscheck.ReasonDisagree, []string{exists}},
		{"NXDOMAIN is made an alias", []zone{withCanary(alias, yes), withCanary(noName, yes), withCanary(noName, noName)}, dnscheck.Unknown, dnscheck.ReasonDisagree, []string{records}},
		{"NXDOMAIN with an alias", []zone{withCanary(both, yes), withCanary(noName, yes), withCanary(noName, noName)}, dnscheck.Unknown, dnscheck.ReasonDisagree, []string{records}},
		{"SERVFAIL says nothing", []zone{withCanary(servfail, yes), withCanary(noName, yes), withCanary(noName, noName)}, dnscheck.Present, dnscheck.ReasonFound, nil},
		{"REFUSED says nothing", []zone{withCanary(refused, yes), withCanary(bogus, yes), withCanary(noName, noName)}, dnscheck.Present, dnscheck.ReasonFound, nil},
		{"policy, told as such, says nothing", []zone{withCanary(policy, yes), withCanary(noName, yes), withCanary(noName, noName)}, dnscheck.Present, dnscheck.ReasonFound, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var v votes
				c := inMemory(t, dnscheck.Config{CanaryZone: canaryZone, Vote: v.hear}, test.zones...)
				got, err := c.Prove(t.Context(), host, token)
				if err != nil {
					t.Fatal(err)
				}
				want(t, got, test.state, test.reason)
				v.want(t, test.told...)
				for _, o := range got.Observations {
					if o.Reason == dnscheck.ReasonUntrusted && (len(o.Values) > 0 || !strings.Contains(o.Err, "is not counted")) {
						t.Errorf("observation %+v", o)
					}
				}
			})
		})
	}
	t.Run("without a zone nobody is asked", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			want(t, look(t, inMemory(t, dnscheck.Config{}, yes)), dnscheck.Present, dnscheck.ReasonFound)
		})
	})
}

// inMemory returns a checker with one resolver per zone, named r0, r1, …, that answer in this
// order.
func inMemory(t *testing.T, c dnscheck.Config, zones ...zone) *dnscheck.Checker {
	t.Helper()
	if c.Resolvers == nil {
		c.Resolvers = anyResolver(len(zones))
	}
	dials := map[string]dnscheck.DialFunc{}
	for i, z := range zones {
		c.Resolvers[i].Name = fmt.Sprintf("r%d", i)
		dials[c.Resolvers[i].Addr.String()] = memory{udp: memoryUDP(func(query []byte, send func([]byte)) {
			time.Sleep(time.Duration(i+1) * time.Millisecond)
			z.udp(query, send)
		})}.dial(t)
	}
	checker, err := dnscheck.NewOver(c, func(ctx context.Context, network, address string) (net.Conn, error) {
		return dials[address](ctx, network, address)
	})
	if err != nil {
		t.Fatal(err)
	}
	return checker
}

func TestCanaryIsQueriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var v votes
		var canaries counter
		zones := map[string]zone{"yes": yes, "NXDOMAIN": noName, "SERVFAIL": servfail}
		says := "yes"
		c := inMemory(t, dnscheck.Config{CanaryZone: canaryZone + ".", Vote: v.hear}, withCanary(func(q *dns.Msg) *dns.Msg {
			canaries.add(q)
			return zones[says](q)
		}, yes))
		const lost, back = "r0: it has 1 records for a name that does not exist", "r0: has its vote back"
		for _, step := range []struct {
			after  time.Duration
			says   string
			reason dnscheck.Reason
			asked  int // in total
			told   []string
		}{
			{0, "yes", dnscheck.ReasonUntrusted, 1, []string{lost}},
			{59 * time.Second, "NXDOMAIN", dnscheck.ReasonUntrusted, 1, []string{lost}},
			{time.Second, "SERVFAIL", dnscheck.ReasonUntrusted, 2, []string{lost}}, // the vote does not change
			{time.Minute, "NXDOMAIN", dnscheck.ReasonFound, 3, []string{back, lost}},
			{9 * time.Minute, "yes", dnscheck.ReasonFound, 3, []string{back, lost}},
			{time.Minute, "SERVFAIL", dnscheck.ReasonFound, 4, []string{back, lost}},
			{time.Minute, "yes", dnscheck.ReasonUntrusted, 5, []string{back, lost, lost}},
		} {
			time.Sleep(step.after)
			says = step.says
			if got := look(t, c); got.Reason != step.reason {
				t.Errorf("after %s: %s, want %s", step.after, got.Reason, step.reason)
			}
			if n := len(canaries.seen()); n != step.asked {
				t.Errorf("after %s: asked %d times, want %d", step.after, n, step.asked)
			}
			v.want(t, step.told...)
		}
		names := map[string]bool{}
		for _, q := range canaries.seen() {
			name := dns.CanonicalName(q.Question[0].Name)
			if label, _, _ := strings.Cut(name, "."); len(label) != 26 || name != label+"."+canaryZone+"." {
				t.Errorf("canary %q", name)
			}
			names[name] = true
		}
		if len(names) != 5 {
			t.Errorf("%d names of canaries, want each another", len(names))
		}
	})
}

func TestCanaryIsQueriedOnceByManyChecks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var canaries counter
		c := inMemory(t, dnscheck.Config{CanaryZone: canaryZone}, withCanary(func(q *dns.Msg) *dns.Msg {
			canaries.add(q)
			time.Sleep(time.Second) // the first checks wait for the canary
			return yes(q)
		}, yes))
		for range 2 {
			var all sync.WaitGroup
			for range 50 {
				all.Go(func() {
					v, err := c.Check(t.Context(), host, token)
					if err != nil || v.Reason != dnscheck.ReasonUntrusted {
						t.Errorf("%+v, %v", v, err)
					}
				})
			}
			all.Wait()
		}
		if n := len(canaries.seen()); n != 1 {
			t.Errorf("%d canaries, want 1", n)
		}
	})
}

// TestCanaryOfACancelledCheck checks that another check queries the canary again after the
// check that queried it is canceled.
func TestCanaryOfACancelledCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := inMemory(t, dnscheck.Config{CanaryZone: canaryZone}, withCanary(func(q *dns.Msg) *dns.Msg {
			time.Sleep(time.Second)
			return yes(q)
		}, yes))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		done := make(chan error)
		go func() {
			_, err := c.Check(ctx, host, token)
			done <- err
		}()
		time.Sleep(time.Second / 4)
		began := time.Now()
		want(t, look(t, c), dnscheck.Unknown, dnscheck.ReasonUntrusted)
		if err := <-done; err == nil {
			t.Error("the look was not given up")
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("took %s", took)
		}
	})
}

func TestSilentCanaryEndsWithTheTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := dnscheck.NewOver(dnscheck.Config{Resolvers: anyResolver(1), CanaryZone: canaryZone}, memory{udp: memoryUDP(func(query []byte, send func([]byte)) {
			if isFor(query, host) {
				yes.udp(query, send)
			}
		})}.dial(t))
		if err != nil {
			t.Fatal(err)
		}
		for _, wanted := range []time.Duration{dnscheck.DefaultTimeout, 0} {
			began := time.Now()
			want(t, look(t, c), dnscheck.Present, dnscheck.ReasonFound)
			if took := time.Since(began); took != wanted {
				t.Errorf("took %s, want %s", took, wanted)
			}
		}
	})
}

func TestCanaryZonesThatDoNotFit(t *testing.T) {
	for zone, part := range map[string]string{
		"canary":                                 "has one label only",
		"canary.local":                           "does not serve",
		"a b.example":                            "in a label",
		strings.Repeat("abc.", 56) + "x.example": "is too long",
	} {
		_, err := dnscheck.New(dnscheck.Config{Resolvers: anyResolver(1), CanaryZone: zone})
		if err == nil || !strings.HasPrefix(err.Error(), "canary zone ") || !strings.Contains(err.Error(), part) {
			t.Errorf("%s: error %v, want one with %q", zone, err, part)
		}
	}
}
