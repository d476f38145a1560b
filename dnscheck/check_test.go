package dnscheck_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"

	"orgops/dnscheck"
)

type ask func(ctx context.Context, host, token string) (dnscheck.Verdict, error)

func asks(c *dnscheck.Checker) iter.Seq2[string, ask] {
	return func(yield func(string, ask) bool) {
		_ = yield("look", c.Check) && yield("prove", c.Prove)
	}
}

// Answers of a resolver.
var (
	yes      = holding(token)
	noValue  = holding(other)
	noRecord = zone(func(q *dns.Msg) *dns.Msg {
		m := answer(q)
		m.Ns = []dns.RR{soa("example.com", 60, 60)}
		return m
	})
	noName = zone(func(q *dns.Msg) *dns.Msg {
		m := rcode(q, dns.RcodeNameError)
		m.Ns = []dns.RR{soa("example.com", 900, 900)}
		return m
	})
	servfail = zone(func(q *dns.Msg) *dns.Msg { return rcode(q, dns.RcodeServerFailure) })
	refused  = zone(func(q *dns.Msg) *dns.Msg { return rcode(q, dns.RcodeRefused) })
	bogus    = zone(func(q *dns.Msg) *dns.Msg {
		m := servfail(q)
		m.SetEdns0(1232, false)
		m.IsEdns0().Option = []dns.EDNS0{&dns.EDNS0_EDE{InfoCode: dns.ExtendedErrorCodeDNSBogus}}
		return m
	})
)

func TestResolversThatDiffer(t *testing.T) {
	type outcome struct {
		state  dnscheck.State
		reason dnscheck.Reason
	}
	var (
		found    = outcome{dnscheck.Present, dnscheck.ReasonFound}
		disagree = outcome{dnscheck.Unknown, dnscheck.ReasonDisagree}
	)
	absent := func(r dnscheck.Reason) outcome { return outcome{dnscheck.Absent, r} }
	unknown := func(r dnscheck.Reason) outcome { return outcome{dnscheck.Unknown, r} }
	tests := []struct {
		name   string
		zones  []zone
		quorum int
		prove  outcome
	}{
		{"all yes", []zone{yes, yes, yes}, 0, found},
		{"all no", []zone{noName, noName, noName}, 0, absent(dnscheck.ReasonNoName)},
		{"2 of 3 yes", []zone{yes, noValue, yes}, 0, found},
		{"2 of 3 yes, the third NXDOMAIN", []zone{yes, yes, noName}, 0, found},
		{"2 of 3 yes, the third SERVFAIL", []zone{servfail, yes, yes}, 0, found},
		{"1 of 3 yes", []zone{noRecord, yes, noRecord}, 0, absent(dnscheck.ReasonNoRecord)},
		{"1 of 3 yes, NXDOMAIN and SERVFAIL", []zone{yes, noName, servfail}, 0, disagree},
		{"1 of 3 yes, others SERVFAIL", []zone{yes, servfail, servfail}, 0, unknown(dnscheck.ReasonServFail)},
		{"1 of 3 yes, others bogus", []zone{yes, bogus, bogus}, 0, unknown(dnscheck.ReasonDNSSEC)},
		{"1 of 3 no, others SERVFAIL", []zone{servfail, noName, servfail}, 0, unknown(dnscheck.ReasonServFail)},
		{"yes and NXDOMAIN", []zone{yes, noName}, 0, disagree},
		{"yes and SERVFAIL", []zone{yes, servfail}, 0, unknown(dnscheck.ReasonServFail)},
		{"yes and bogus", []zone{yes, bogus}, 0, unknown(dnscheck.ReasonDNSSEC)},
		{"no and SERVFAIL", []zone{noName, servfail}, 0, unknown(dnscheck.ReasonServFail)},
		{"2 of 4 yes is no majority", []zone{yes, yes, noName, noName}, 0, disagree},
		{"3 of 4 yes", []zone{yes, noName, yes, yes}, 0, found},
		{"3 of 5 yes is a majority, and too few", []zone{yes, noName, yes, yes, servfail}, 0, disagree},
		{"4 of 5 yes", []zone{yes, noName, yes, yes, yes}, 0, found},
		{"4 of 6 yes", []zone{yes, noName, yes, yes, servfail, yes}, 0, found},
		{"3 of 5 no", []zone{noName, noName, noName, servfail, servfail}, 0, unknown(dnscheck.ReasonServFail)},
		{"all three are wanted and one is missing", []zone{yes, yes, noName}, 3, disagree},
		{"all three are wanted and there", []zone{yes, yes, yes}, 3, found},
		{"a single resolver says yes", []zone{yes}, 0, unknown(dnscheck.ReasonTooFewResolvers)},
		{"a single resolver says no", []zone{noValue}, 0, absent(dnscheck.ReasonOtherValue)},
		{"refused by all", []zone{refused, refused, refused}, 0, unknown(dnscheck.ReasonRefused)},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			v := prove(t, quorumOf(t, test.quorum, test.zones...))
			want(t, v, test.prove.state, test.prove.reason)
		})
	}
}

// TestProofDoesNotDependOnTheOrderOfAnswers checks every order of the same answers.
func TestProofDoesNotDependOnTheOrderOfAnswers(t *testing.T) {
	sets := []struct {
		name   string
		zones  [3]zone
		quorum int
		state  dnscheck.State
	}{
		{"2 of 3", [3]zone{yes, noName, yes}, 2, dnscheck.Present},
		{"1 of 3", [3]zone{yes, noName, noName}, 2, dnscheck.Absent},
		{"a veto", [3]zone{yes, yes, bogus}, 2, dnscheck.Unknown},
		{"one is authenticated", [3]zone{yes, yes, signed(yes)}, 2, dnscheck.Unknown},
		{"split", [3]zone{yes, noName, servfail}, 2, dnscheck.Unknown},
	}
	for _, set := range sets {
		for _, order := range [][3]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
			bubble(t, fmt.Sprintf("%s, %v", set.name, order), func(t *testing.T) {
				resolvers := anyResolver(3)
				var dials []dnscheck.DialFunc
				for _, z := range set.zones {
					dials = append(dials, memory{udp: memoryUDP(z.udp)}.dial(t))
				}
				c, err := dnscheck.NewOver(dnscheck.Config{Resolvers: resolvers, Quorum: set.quorum},
					func(ctx context.Context, network, address string) (net.Conn, error) {
						for i, r := range resolvers {
							if r.Addr.String() == address {
								time.Sleep(time.Duration(order[i]+1) * 100 * time.Millisecond)
								return dials[i](ctx, network, address)
							}
						}
						return nil, errors.New("nobody's address")
					})
				if err != nil {
					t.Fatal(err)
				}
				v := prove(t, c)
				if v.State != set.state {
					t.Errorf("state %s, want %s", v.State, set.state)
				}
			})
		}
	}
}

func TestCheckNeedsOneYesOrAQuorumOfNo(t *testing.T) {
	t.Run("one of three sees it, others know nothing", func(t *testing.T) {
		want(t, look(t, quorumOf(t, 0, servfail, yes, servfail)), dnscheck.Present, dnscheck.ReasonFound)
	})
	t.Run("one no is no quorum", func(t *testing.T) {
		want(t, look(t, quorumOf(t, 0, servfail, noName, refused)), dnscheck.Unknown, dnscheck.ReasonServFail)
	})
	t.Run("two no are", func(t *testing.T) {
		v := look(t, quorumOf(t, 0, servfail, noName, noName))
		want(t, v, dnscheck.Absent, dnscheck.ReasonNoName)
	})
	t.Run("the reason that tells most, and the longest TTL", func(t *testing.T) {
		v := look(t, quorumOf(t, 3, noName, noRecord, noValue))
		want(t, v, dnscheck.Absent, dnscheck.ReasonOtherValue)
		if v.NegativeTTL != 15*time.Minute {
			t.Errorf("negative TTL %s, want 15m", v.NegativeTTL)
		}
	})
	t.Run("present has no negative TTL", func(t *testing.T) {
		v, err := quorumOf(t, 2, noName, yes, yes).Prove(t.Context(), host, token)
		if err != nil || v.State != dnscheck.Present || v.NegativeTTL != 0 {
			t.Errorf("%+v, %v", v, err)
		}
	})
}

// TestSlowResolverDoesNotDelayACheck has a resolver that never answers and a timeout of an
// hour. A check that waits for it hangs. A proof waits (TestProofWaitsForEachResolver).
func TestSlowResolverDoesNotDelayACheck(t *testing.T) {
	for name, decided := range map[string]struct {
		zone  zone
		state dnscheck.State
	}{
		"yes": {yes, dnscheck.Present},
		"no":  {noName, dnscheck.Absent},
	} {
		t.Run(name, func(t *testing.T) {
			asked := make(chan struct{}, 10)
			slow := serve(t, func([]byte, func([]byte)) { asked <- struct{}{} }, func([]byte, net.Conn) {})
			most := 1 // one answer with the token decides a check
			if decided.state == dnscheck.Absent {
				most = 2
			}
			// The quick resolvers answer only after the slow one is queried.
			gate := make(chan struct{})
			quick := func() dnscheck.Resolver {
				return serve(t, func(query []byte, send func([]byte)) {
					<-gate
					decided.zone.udp(query, send)
				}, nil)
			}
			var opened sync.Once
			defer opened.Do(func() { close(gate) })
			c := checker(t, slow, quick(), quick())
			var watching sync.WaitGroup
			watching.Go(func() {
				<-asked
				opened.Do(func() { close(gate) })
			})
			v := look(t, c)
			watching.Wait()
			if v.State != decided.state || len(v.Observations) != most {
				t.Errorf("state %s of %d observations, want %s of %d", v.State, len(v.Observations), decided.state, most)
			}
		})
	}
}

func TestSlowNameDelaysNoOther(t *testing.T) {
	asked := make(chan struct{}, 1)
	resolver := serve(t, func(query []byte, send func([]byte)) {
		q := new(dns.Msg)
		if err := q.Unpack(query); err == nil && asksFor(q, "slow.example.com") {
			asked <- struct{}{}
			return
		}
		yes.udp(query, send)
	}, nil)
	c := checker(t, resolver)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := c.Check(ctx, "slow.example.com", token)
		done <- err
	}()
	<-asked
	for range 20 {
		want(t, look(t, c), dnscheck.Present, dnscheck.ReasonFound)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want the context's", err)
	}
}

func TestContextEnds(t *testing.T) {
	t.Run("before", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		var queries counter
		c := checker(t, both(t, func(q *dns.Msg) *dns.Msg {
			queries.add(q)
			return yes(q)
		}))
		for name, ask := range asks(c) {
			_, err := ask(ctx, host, token)
			if !errors.Is(err, context.Canceled) || asQuestionError(err) {
				t.Errorf("%s: error %v, want the context's", name, err)
			}
		}
		if n := len(queries.seen()); n != 0 {
			t.Errorf("%d queries were sent", n)
		}
	})
	t.Run("while UDP is waited for", func(t *testing.T) {
		asked := make(chan struct{}, 1)
		abandon(t, checker(t, serve(t, func([]byte, func([]byte)) { asked <- struct{}{} }, nil)), asked)
	})
	t.Run("while TCP is waited for", func(t *testing.T) {
		asked := make(chan struct{}, 1)
		left := make(chan error, 1)
		resolver := serve(t, nil, func(_ []byte, conn net.Conn) {
			asked <- struct{}{}
			_, err := conn.Read(make([]byte, 1)) // ends when the client closes the connection
			left <- err
		})
		abandon(t, checker(t, resolver), asked)
		if err := <-left; err == nil {
			t.Error("the connection was not closed")
		}
	})
	t.Run("in the middle of a TCP reply", func(t *testing.T) {
		asked := make(chan struct{}, 1)
		resolver := serve(t, nil, func(query []byte, conn net.Conn) {
			_, _ = conn.Write(frame(yes.packed(query))[:20])
			asked <- struct{}{}
			_, _ = conn.Read(make([]byte, 1))
		})
		resolver.Transport = "tcp"
		abandon(t, checker(t, resolver), asked)
	})
	t.Run("between two hops", func(t *testing.T) {
		asked := make(chan struct{}, 1)
		abandon(t, checker(t, serve(t, func(query []byte, send func([]byte)) {
			z := zone(func(q *dns.Msg) *dns.Msg { return answer(q, cname(q.Question[0].Name, "target.example")) })
			q := new(dns.Msg)
			if err := q.Unpack(query); err == nil && asksFor(q, "target.example") {
				asked <- struct{}{}
				return
			}
			z.udp(query, send)
		}, nil)), asked)
	})
	t.Run("after some have answered, too few", func(t *testing.T) {
		asked := make(chan struct{}, 1)
		seen := make(chan dnscheck.Observation, 3)
		c := build(t, dnscheck.Config{
			Resolvers: []dnscheck.Resolver{
				both(t, yes), serve(t, func([]byte, func([]byte)) { <-seen; asked <- struct{}{} }, nil),
			},
			Timeout: long,
			Observe: func(o dnscheck.Observation) { seen <- o },
		})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		done := make(chan error, 1)
		go func() {
			_, err := c.Prove(ctx, host, token)
			done <- err
		}()
		<-asked
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("error %v, want the context's", err)
		}
	})
	t.Run("while an answer is told of, others being cut short", func(t *testing.T) {
		for range 40 { // two events are concurrent, in either order
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				resolvers := anyResolver(2)
				answers, hangs := memory{udp: memoryUDP(yes.udp)}.dial(t), memory{udp: unanswered}.dial(t)
				c, err := dnscheck.NewOver(dnscheck.Config{
					Resolvers: resolvers,
					Observe: func(dnscheck.Observation) {
						cancel()
						synctest.Wait() // until the other query has ended
					},
				}, func(ctx context.Context, network, address string) (net.Conn, error) {
					if address == resolvers[0].Addr.String() {
						return answers(ctx, network, address)
					}
					return hangs(ctx, network, address)
				})
				if err != nil {
					t.Fatal(err)
				}
				if v, err := c.Prove(ctx, host, token); !errors.Is(err, context.Canceled) {
					t.Errorf("verdict %+v, error %v; want the context's", v, err)
				}
			})
		}
	})
	bubble(t, "by its deadline, which is nearer than the timeout", func(t *testing.T) {
		c, err := dnscheck.NewOver(dnscheck.Config{Resolvers: anyResolver(3), Timeout: time.Hour},
			memory{udp: unanswered}.dial(t))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		_, err = c.Check(ctx, host, token)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v, want the context's", err)
		}
		if took := time.Since(began); took != time.Second {
			t.Errorf("took %s, want a second", took)
		}
	})
}

func TestNoSocketIsLeftOpen(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("counts sockets in /proc")
	}
	truncated := zone(func(q *dns.Msg) *dns.Msg {
		m := answer(q)
		m.Truncated = true
		return m
	})
	asked := make(chan struct{}, 1)
	hears := serve(t, func([]byte, func([]byte)) { asked <- struct{}{} }, nil)
	mixed := checker(t, both(t, yes), serve(t, nil, nil), serve(t, truncated.udp, nil), serve(t, silent, nil))
	before := sockets(t)
	for range 50 {
		want(t, look(t, mixed), dnscheck.Present, dnscheck.ReasonFound)
		abandon(t, checker(t, hears), asked)
	}
	if after := sockets(t); after > before {
		t.Errorf("%d sockets before, %d after", before, after)
	}
}

// sockets counts the sockets of this process.
func sockets(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, entry := range entries {
		if target, err := os.Readlink("/proc/self/fd/" + entry.Name()); err == nil && strings.HasPrefix(target, "socket:") {
			n++
		}
	}
	return n
}

func TestManyChecksAtOnce(t *testing.T) {
	var told struct {
		sync.Mutex
		observations int
	}
	c := build(t, dnscheck.Config{
		Resolvers: []dnscheck.Resolver{both(t, yes), both(t, yes), both(t, yes)},
		Quorum:    3,
		Timeout:   long,
		Observe: func(dnscheck.Observation) {
			told.Lock()
			defer told.Unlock()
			told.observations++
		},
	})
	const looks = 50
	var all sync.WaitGroup
	for range looks {
		all.Go(func() {
			if v, err := c.Prove(t.Context(), host, token); err != nil || v.State != dnscheck.Present {
				t.Errorf("%+v, %v", v, err)
			}
		})
	}
	all.Wait()
	if told.observations != 3*looks {
		t.Errorf("told of %d observations, want %d", told.observations, 3*looks)
	}
}

func TestWhatAnObservationHolds(t *testing.T) {
	resolver := both(t, holding("first", "second"))
	resolver.Name = "the first resolver"
	v := look(t, checker(t, resolver))
	if len(v.Observations) != 1 {
		t.Fatalf("%d observations, want 1", len(v.Observations))
	}
	got := v.Observations[0]
	got.Took = 0
	wanted := dnscheck.Observation{
		Resolver: "the first resolver", Operator: resolver.Addr.String(), Perspective: "default", Transport: "udp",
		State: dnscheck.Absent, Reason: dnscheck.ReasonOtherValue,
		Values: []string{"first", "second"}, RCode: "NOERROR", NegativeTTL: 300 * time.Second,
	}
	if diff := cmp.Diff(wanted, got); diff != "" {
		t.Errorf("observation (-want +got):\n%s", diff)
	}
	if v.Host != host {
		t.Errorf("host %q, want %q as it was given", v.Host, host)
	}
}

func TestNewRefusesInvalidConfig(t *testing.T) {
	three := anyResolver(3)
	tests := []struct {
		name, want string
		config     dnscheck.Config
	}{
		{"no resolvers", "no resolvers: name at least one", dnscheck.Config{}},
		{"resolver without an address", "a resolver has no address", dnscheck.Config{Resolvers: []dnscheck.Resolver{{}}}},
		{"resolver named twice", "resolver 192.0.2.1:53 is named twice: it would count twice for the quorum; name each once",
			dnscheck.Config{Resolvers: append(anyResolver(2), three[0])}},
		{"quorum too high", "resolver quorum 4: want 2 to 3 of 3 resolvers, or 0 for 2",
			dnscheck.Config{Resolvers: three, Quorum: 4}},
		{"quorum below 0", "resolver quorum -1: want 2 to 3 of 3 resolvers, or 0 for 2",
			dnscheck.Config{Resolvers: three, Quorum: -1}},
		{"unknown transport", `resolver 192.0.2.1:53: unknown transport "quic"; use udp, tcp or https`,
			dnscheck.Config{Resolvers: []dnscheck.Resolver{{Addr: three[0].Addr, Transport: "quic"}}}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := dnscheck.New(test.config)
			if err == nil {
				t.Fatal("no error")
			}
			if diff := cmp.Diff(test.want, err.Error()); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}

// quorumOf returns a checker with one resolver per zone.
func quorumOf(t *testing.T, quorum int, zones ...zone) *dnscheck.Checker {
	t.Helper()
	var resolvers []dnscheck.Resolver
	for _, z := range zones {
		resolvers = append(resolvers, both(t, z))
	}
	return build(t, dnscheck.Config{Resolvers: resolvers, Quorum: quorum, Timeout: long})
}

// abandon cancels a check after the server is queried, and expects the check to end.
func abandon(t *testing.T, c *dnscheck.Checker, asked <-chan struct{}) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := c.Check(ctx, host, token)
		done <- err
	}()
	<-asked
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want the context's", err)
	}
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
