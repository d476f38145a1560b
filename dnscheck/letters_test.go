package dnscheck_test

import (
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"

	"orgops/dnscheck"
)

// inLower returns the question in lower case.
func inLower(z zone) zone {
	return func(q *dns.Msg) *dns.Msg {
		m := z(q)
		m.Question[0].Name = strings.ToLower(m.Question[0].Name)
		return m
	}
}

// heard records the queried names over each transport, as written.
type heard struct {
	mu       sync.Mutex
	udp, tcp []string
}

func (h *heard) over(transport *[]string, z zone) zone {
	return func(q *dns.Msg) *dns.Msg {
		h.mu.Lock()
		defer h.mu.Unlock()
		*transport = append(*transport, q.Question[0].Name)
		return z(q)
	}
}

func (h *heard) want(t *testing.T, udp, tcp int) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.udp) != udp || len(h.tcp) != tcp {
		t.Errorf("%d queries over UDP and %d over TCP, want %d and %d", len(h.udp), len(h.tcp), udp, tcp)
	}
}

func (h *heard) lastUDP() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.udp[len(h.udp)-1]
}

func TestLettersGoOutAtRandom(t *testing.T) {
	var h heard
	c := checker(t, serve(t, h.over(&h.udp, yes).udp, nil))
	const looks = 20
	for range looks {
		want(t, look(t, c), dnscheck.Present, dnscheck.ReasonFound)
	}
	h.want(t, looks, 0)
	ways := map[string]bool{}
	for _, name := range h.udp {
		if !strings.EqualFold(name, host+".") {
			t.Errorf("asked for %q", name)
		}
		ways[name] = true
	}
	if len(ways) != looks { // of 2^20
		t.Errorf("%d ways of writing the name in %d queries", len(ways), looks)
	}
}

// TestLettersAreShownAsTheyWereGiven checks that names compressed to a pointer into the
// question have the caller's letter case.
func TestLettersAreShownAsTheyWereGiven(t *testing.T) {
	v := look(t, checker(t, both(t, func(q *dns.Msg) *dns.Msg {
		name := q.Question[0].Name
		target := "alias" + name[strings.Index(name, "."):]
		m := answer(q, cname(name, target), txt(target, token))
		m.Compress = true
		return m
	})))
	want(t, v, dnscheck.Present, dnscheck.ReasonFound)
	if diff := cmp.Diff([]string{"alias.Org-1.Example.com"}, v.Observations[0].Aliases); diff != "" {
		t.Errorf("aliases (-want +got):\n%s", diff)
	}
}

// TestForgeryInOtherLettersIsRejected has a forger who guesses the port and the id, but not
// the letter case.
func TestForgeryInOtherLettersIsRejected(t *testing.T) {
	sides := []struct {
		name          string
		forged, right zone
		state         dnscheck.State
		reason        dnscheck.Reason
	}{
		{"a forged yes before a no", yes, noValue, dnscheck.Absent, dnscheck.ReasonOtherValue},
		{"a forged no before a yes", noName, yes, dnscheck.Present, dnscheck.ReasonFound},
	}
	for _, side := range sides {
		for _, open := range []bool{true, false} {
			name := side.name + ", TCP open"
			if !open {
				name = side.name + ", TCP closed"
			}
			t.Run(name, func(t *testing.T) {
				var h heard
				right := h.over(&h.udp, side.right)
				forge := true
				udp := func(query []byte, send func([]byte)) {
					reply := right.packed(query)
					h.mu.Lock()
					defer h.mu.Unlock()
					if forge {
						forge = false
						send(inLower(side.forged).packed(query))
					}
					send(reply)
				}
				tcp := h.over(&h.tcp, side.right).tcp
				wantTransport, wantUDP, wantTCP := "tcp", 1, 1
				if !open {
					tcp, wantTransport, wantUDP, wantTCP = nil, "udp", 2, 0
				}
				c := checker(t, serve(t, udp, tcp))
				v := look(t, c)
				want(t, v, side.state, side.reason)
				if got := v.Observations[0].Transport; got != wantTransport {
					t.Errorf("answered over %s, want %s", got, wantTransport)
				}
				h.want(t, wantUDP, wantTCP)
				// A forgery must not disable mixed case for later queries.
				want(t, look(t, c), side.state, side.reason)
				h.want(t, wantUDP+1, wantTCP)
				if name := h.lastUDP(); name == host+"." || name == strings.ToLower(host)+"." {
					t.Errorf("asked for %q: the letters are not mixed any more", name)
				}
			})
		}
	}
}

// TestServerThatDoesNotKeepLetters checks that a server that changes the letter case costs one
// more query.
func TestServerThatDoesNotKeepLetters(t *testing.T) {
	t.Run("with TCP", func(t *testing.T) {
		var h heard
		c := checker(t, serve(t, h.over(&h.udp, inLower(yes)).udp, h.over(&h.tcp, inLower(yes)).tcp))
		v := look(t, c)
		want(t, v, dnscheck.Present, dnscheck.ReasonFound)
		if got := v.Observations[0].Transport; got != "tcp" {
			t.Errorf("answered over %s, want tcp", got)
		}
		h.want(t, 1, 1)
	})
	t.Run("without TCP", func(t *testing.T) {
		var h heard
		c := checker(t, serve(t, h.over(&h.udp, inLower(yes)).udp, nil))
		for queries := range 3 {
			want(t, look(t, c), dnscheck.Present, dnscheck.ReasonFound)
			h.want(t, 2*queries+2, 0)
		}
	})
	t.Run("over UDP only: something in the way does it", func(t *testing.T) {
		var h heard
		c := checker(t, serve(t, h.over(&h.udp, inLower(yes)).udp, h.over(&h.tcp, yes).tcp))
		for queries := range 3 {
			want(t, look(t, c), dnscheck.Present, dnscheck.ReasonFound)
			h.want(t, queries+1, queries+1)
		}
	})
	t.Run("truncated, without TCP", func(t *testing.T) {
		truncated := zone(func(q *dns.Msg) *dns.Msg {
			m := yes(q)
			m.Truncated = true
			return m
		})
		v := look(t, checker(t, serve(t, inLower(truncated).udp, nil)))
		want(t, v, dnscheck.Unknown, dnscheck.ReasonUnreachable)
	})
	bubble(t, "silent the second time", func(t *testing.T) {
		asked := false
		v := lookInMemory(t, memory{udp: func(conn net.Conn) {
			if !asked {
				asked = true
				memoryUDP(inLower(yes).udp)(conn)
				return
			}
			unanswered(conn)
		}})
		want(t, v, dnscheck.Unknown, dnscheck.ReasonTimeout)
	})
}

// exactly answers by z for the host in the given letters, and by others for it in other ones, as a
// server does that compares letters exactly.
func exactly(z, others zone) zone {
	return func(q *dns.Msg) *dns.Msg {
		if name := q.Question[0].Name; name == host+"." || name == "v.example.com." {
			return z(q)
		}
		return others(q)
	}
}

// TestServerThatComparesLettersExactly has name servers deny the host in letters of random case. A
// domain there could never be proven, and a verified one would be revoked.
func TestServerThatComparesLettersExactly(t *testing.T) {
	holds, lacks := zoneOf(start("example.com"), txt(host, token)), zoneOf(start("example.com"))
	wild := zoneOf(start("example.com"), txt(host, other))
	unpublished := absent(dnscheck.ReasonNoName)
	tests := []struct {
		name     string
		zone     zone
		noTCP    bool
		want     expected // of a check and a proof
		disproof expected
		udp, tcp int // queries to the two servers for a check
	}{
		{"denies", exactly(holds, lacks), false, found, found, 4, 2},
		{"refuses", exactly(holds, refused), false, found, found, 4, 2},
		{"refuses, and does not have it", exactly(lacks, refused), false, unpublished, unpublished, 4, 2},
		{"has a wildcard", exactly(holds, wild), false, found, found, 4, 2},
		{"denies, without TCP", exactly(holds, lacks), true, unknown(dnscheck.ReasonUnreachable), found, 4, 0},
		{"denies, and has an alias", exactly(zoneOf(start("example.com"), cname(host, "v.example.com"),
			txt("v.example.com", token)), lacks), false, found, found, 8, 4},
		{"denies, and does not have it either", exactly(lacks, lacks), false, unpublished, unpublished, 4, 0},
		{"denies, and has another value", exactly(wild, lacks), false, absent(dnscheck.ReasonOtherValue),
			absent(dnscheck.ReasonOtherValue), 4, 0},
		{"has it in any letters", holds, false, found, found, 2, 0},
		{"has it in other letters only", exactly(lacks, holds), false, found, found, 2, 0},
	}
	for _, test := range tests {
		for way, ask := range map[string]func(*testing.T, *dnscheck.Checker) dnscheck.Verdict{
			"look": look, "prove": prove, "disprove": disprove,
		} {
			bubble(t, test.name+", "+way, func(t *testing.T) {
				n := overTLD(t, twoServers()...)
				n.at(nsOne, test.zone)
				n.at(nsTwo, test.zone)
				switch {
				case test.want == found || test.disproof == found:
					n.know(txt(host, token))
				case test.want == absent(dnscheck.ReasonOtherValue):
					n.know(txt(host, other))
				}
				c := n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority})
				n.noTCP = test.noTCP
				v := ask(t, c)
				wanted := test.want
				if way == "disprove" {
					wanted = test.disproof
				}
				want(t, v, wanted.state, wanted.reason)
				var udp, tcp int
				for _, a := range n.askedOf(nsOne, nsTwo) {
					if a.network == "udp" {
						udp++
					} else {
						tcp++
					}
				}
				if udp != test.udp || tcp != test.tcp {
					t.Errorf("%d queries over UDP and %d over TCP, want %d and %d", udp, tcp, test.udp, test.tcp)
				}
			})
		}
	}
}

// TestForgedAnswerInTheGivenLetters has a forger who guesses the port and the id of the second
// query, in which no letter is random: the forged answer does not count.
func TestForgedAnswerInTheGivenLetters(t *testing.T) {
	lacks, holds := zoneOf(start("example.com")), zoneOf(start("example.com"), txt(host, token))
	for way, ask := range ways {
		bubble(t, way, func(t *testing.T) {
			n := delegated(t)
			n.know(txt(host, token))
			for _, addr := range []string{nsOne, nsTwo} {
				n.at(addr, exactly(holds, lacks))
				n.overTCP(addr, lacks)
			}
			want(t, ask(t, n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority})), dnscheck.Absent, dnscheck.ReasonNoName)
		})
	}
}
