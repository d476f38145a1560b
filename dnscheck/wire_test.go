package dnscheck_test

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"

	"orgops/dnscheck"
)

// damage turns a good reply into bytes that must be rejected.
type damage struct {
	name string
	// alone is the reason if no better reply follows. A malformed reply with the right id
	// indicates a broken server.
	alone dnscheck.Reason
	make  func(good []byte) []byte
}

func damages() []damage {
	changed := func(change func(m *dns.Msg)) func([]byte) []byte {
		return func(good []byte) []byte {
			m := new(dns.Msg)
			if err := m.Unpack(good); err != nil {
				panic(err)
			}
			change(m)
			packed, err := m.Pack()
			if err != nil {
				panic(err)
			}
			return packed
		}
	}
	octet := func(i int, change func(byte) byte) func([]byte) []byte {
		return func(good []byte) []byte {
			bad := append([]byte(nil), good...)
			bad[i] = change(bad[i])
			return bad
		}
	}
	afterQuestion := func(packed ...byte) func([]byte) []byte {
		return func(good []byte) []byte {
			_, end, err := dns.UnpackDomainName(good, 12)
			if err != nil {
				panic(err)
			}
			bad := append([]byte(nil), good[:end+4]...)
			binary.BigEndian.PutUint16(bad[6:], 1)
			binary.BigEndian.PutUint16(bad[8:], 0)
			binary.BigEndian.PutUint16(bad[10:], 0)
			return append(bad, packed...)
		}
	}
	record := func(owner ...byte) []byte {
		return append(owner, 0, 16, 0, 1, 0, 0, 0, 9, 0, 2, 1, 'x')
	}
	overlong := make([]byte, 0, 260)
	for range 4 {
		overlong = append(append(overlong, 63), strings.Repeat("a", 63)...)
	}
	return []damage{
		{"wrong id", dnscheck.ReasonTimeout, octet(0, func(b byte) byte { return b ^ 0x55 })},
		{"empty message", dnscheck.ReasonTimeout, func([]byte) []byte { return nil }},
		{"one byte", dnscheck.ReasonTimeout, func(good []byte) []byte { return good[:1] }},
		{"eleven bytes", dnscheck.ReasonTimeout, func(good []byte) []byte { return good[:11] }},
		{"header alone", dnscheck.ReasonMalformed, func(good []byte) []byte { return good[:12] }},
		{"not a response", dnscheck.ReasonTimeout, octet(2, func(b byte) byte { return b &^ 0x80 })},
		{"our own query", dnscheck.ReasonTimeout, func(good []byte) []byte {
			_, end, err := dns.UnpackDomainName(good, 12)
			if err != nil {
				panic(err)
			}
			query := append([]byte(nil), good[:end+4]...)
			return append(query[:2], append([]byte{1, 0, 0, 1, 0, 0, 0, 0, 0, 0}, query[12:]...)...)
		}},
		{"other opcode", dnscheck.ReasonMalformed, octet(2, func(b byte) byte { return b | 4<<3 })},
		{"no question", dnscheck.ReasonMalformed, changed(func(m *dns.Msg) { m.Question = nil })},
		{"question that is not counted", dnscheck.ReasonMalformed, octet(5, func(byte) byte { return 0 })},
		{"question that is counted twice", dnscheck.ReasonMalformed, octet(5, func(byte) byte { return 2 })},
		{
			"two questions", dnscheck.ReasonMalformed,
			changed(func(m *dns.Msg) { m.Question = append(m.Question, m.Question[0]) }),
		},
		{"wrong name in the question", dnscheck.ReasonMalformed,
			changed(func(m *dns.Msg) { m.Question[0].Name = "_verify.org-2.example.com." })},
		{"parent name in the question", dnscheck.ReasonMalformed,
			changed(func(m *dns.Msg) { m.Question[0].Name = "example.com." })},
		{"escaped dot in the question", dnscheck.ReasonMalformed,
			changed(func(m *dns.Msg) { m.Question[0].Name = `_verify\.org-1.example.com.` })},
		{"wrong type in the question", dnscheck.ReasonMalformed,
			changed(func(m *dns.Msg) { m.Question[0].Qtype = dns.TypeSPF })},
		{"wrong class in the question", dnscheck.ReasonMalformed,
			changed(func(m *dns.Msg) { m.Question[0].Qclass = dns.ClassCHAOS })},
		{"trailing garbage", dnscheck.ReasonMalformed, func(good []byte) []byte {
			return append(append([]byte(nil), good...), "more"...)
		}},
		{"cut in a record", dnscheck.ReasonMalformed, func(good []byte) []byte { return good[:len(good)-3] }},
		{"count of answers too high", dnscheck.ReasonMalformed, octet(7, func(b byte) byte { return b + 5 })},
		{"count of answers too low", dnscheck.ReasonMalformed, octet(7, func(b byte) byte { return b - 1 })},
		{"count of answers without any", dnscheck.ReasonMalformed, afterQuestion()},
		{"count of authority records too high", dnscheck.ReasonMalformed, octet(9, func(b byte) byte { return b + 1 })},
		{"count of additional records too high", dnscheck.ReasonMalformed, octet(11, func(b byte) byte { return b + 1 })},
		{"pointer to itself", dnscheck.ReasonMalformed, func(good []byte) []byte {
			at := len(afterQuestion()(good))
			return afterQuestion(record(0xC0|byte(at>>8), byte(at))...)(good)
		}},
		{"two pointers in a circle", dnscheck.ReasonMalformed, func(good []byte) []byte {
			at := len(afterQuestion()(good))
			return afterQuestion(record(0xC0|byte((at+2)>>8), byte(at+2), 0xC0|byte(at>>8), byte(at))...)(good)
		}},
		{"pointer past the end", dnscheck.ReasonMalformed, afterQuestion(record(0xFF, 0xFF)...)},
		{"over-long name", dnscheck.ReasonMalformed, afterQuestion(record(append(overlong, 0)...)...)},
		{
			"label of 64 bytes", dnscheck.ReasonMalformed,
			afterQuestion(record(append([]byte{64}, strings.Repeat("a", 64)+"\x00"...)...)...),
		},
		{"reserved label type", dnscheck.ReasonMalformed, afterQuestion(record(0x80, 0)...)},
		{"string longer than its record", dnscheck.ReasonMalformed,
			afterQuestion(0xC0, 12, 0, 16, 0, 1, 0, 0, 0, 9, 0, 2, 9, 'x')},
		{"record longer than the message", dnscheck.ReasonMalformed,
			afterQuestion(0xC0, 12, 0, 16, 0, 1, 0, 0, 0, 9, 0, 9, 1, 'x')},
		{
			"two OPT records", dnscheck.ReasonMalformed,
			changed(func(m *dns.Msg) { m.SetEdns0(1232, false); m.SetEdns0(1232, false) }),
		},
		{"random bytes behind our id", dnscheck.ReasonMalformed, func(good []byte) []byte {
			random := rand.New(rand.NewPCG(1, 2))
			bad := append([]byte(nil), good[:2]...)
			bad = append(bad, 0x80, 0) // a response, so that it is not ignored as a query
			for range 60 {
				bad = append(bad, byte(random.Uint32()))
			}
			return bad
		}},
	}
}

// TestDamagedRepliesArePassedOver checks that damaged replies before the good one are ignored,
// whatever their records.
func TestDamagedRepliesArePassedOver(t *testing.T) {
	sides := []struct {
		name         string
		first, right zone
		state        dnscheck.State
		reason       dnscheck.Reason
	}{
		{"a damaged yes before a no", holding(token), holding(other), dnscheck.Absent, dnscheck.ReasonOtherValue},
		{"a damaged no before a yes", holding(other), holding(token), dnscheck.Present, dnscheck.ReasonFound},
	}
	for _, d := range damages() {
		for _, side := range sides {
			t.Run(d.name+"/"+side.name, func(t *testing.T) {
				resolver := serve(t,
					func(query []byte, send func([]byte)) {
						send(d.make(side.first.packed(query)))
						send(side.right.packed(query))
					},
					func(query []byte, conn net.Conn) {
						_, _ = conn.Write(frame(d.make(side.first.packed(query))))
						_, _ = conn.Write(frame(side.right.packed(query)))
					})
				for _, transport := range []string{"udp", "tcp"} {
					resolver.Transport = transport
					v := look(t, checker(t, resolver))
					want(t, v, side.state, side.reason)
					if got := v.Observations[0].Transport; got != transport {
						t.Errorf("answered over %s, want %s", got, transport)
					}
				}
			})
		}
	}
}

func TestOnlyDamagedRepliesAreUnknown(t *testing.T) {
	for _, d := range damages() {
		bubble(t, d.name, func(t *testing.T) {
			v := lookInMemory(t, memory{
				udp: memoryUDP(func(query []byte, send func([]byte)) { send(d.make(holding(token).packed(query))) }),
				tcp: memoryTCP(func(query []byte, conn net.Conn) {
					_, _ = conn.Write(frame(d.make(holding(token).packed(query))))
					unanswered(conn)
				}),
			})
			want(t, v, dnscheck.Unknown, d.alone)
			if v.Observations[0].Err == "" {
				t.Error("an observation without an answer must say what happened")
			}
		})
	}
}

func TestFloodOfWrongIDsLastsToTheDeadlineOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := lookInMemory(t, memory{udp: func(conn net.Conn) {
			query := make([]byte, 1500)
			n, err := conn.Read(query)
			for err == nil {
				forged := holding(token).packed(query[:n])
				forged[0] ^= 0x55
				_, err = conn.Write(forged)
				time.Sleep(time.Millisecond)
			}
		}})
		want(t, v, dnscheck.Unknown, dnscheck.ReasonTimeout)
		if took := v.Observations[0].Took; took != dnscheck.DefaultTimeout {
			t.Errorf("took %s, want %s", took, dnscheck.DefaultTimeout)
		}
	})
}

// TestRightIDFromAnotherSourceIsDropped has a forger who knows the port and the id, but cannot
// send from the resolver's address.
func TestRightIDFromAnotherSourceIsDropped(t *testing.T) {
	forger, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = forger.Close() }()
	var resolver dnscheck.Resolver
	proxy, listener := listen(t)
	defer func() { _ = proxy.Close() }()
	_ = listener.Close()
	var running sync.WaitGroup
	running.Go(func() {
		buffer := make([]byte, 1500)
		n, from, err := proxy.ReadFrom(buffer)
		if err != nil {
			return
		}
		_, _ = forger.WriteTo(holding(token).packed(buffer[:n]), from)
		_, _ = proxy.WriteTo(holding(other).packed(buffer[:n]), from)
	})
	defer running.Wait()
	resolver.Addr = proxy.LocalAddr().(*net.UDPAddr).AddrPort()
	want(t, look(t, checker(t, resolver)), dnscheck.Absent, dnscheck.ReasonOtherValue)
}

func TestDuplicateReplyDoesNoHarm(t *testing.T) {
	resolver := serve(t, func(query []byte, send func([]byte)) {
		send(holding(token).packed(query))
		send(holding(token).packed(query))
	}, nil)
	c := checker(t, resolver)
	for range 5 {
		want(t, look(t, c), dnscheck.Present, dnscheck.ReasonFound)
	}
}

func TestReplyLongerThanAdvertised(t *testing.T) {
	long := holding(append(fillers(60), token)...) // over 1232 bytes, below the read limit
	t.Run("whole", func(t *testing.T) {
		v := look(t, checker(t, serve(t, long.udp, nil)))
		want(t, v, dnscheck.Present, dnscheck.ReasonFound)
	})
	t.Run("cut by the buffer, fetched by TCP", func(t *testing.T) {
		tooLong := holding(append(fillers(1000), token)...)
		synctest.Test(t, func(t *testing.T) {
			v := lookInMemory(t, memory{udp: memoryUDP(tooLong.udp), tcp: memoryTCP(tooLong.tcp)})
			want(t, v, dnscheck.Present, dnscheck.ReasonFound)
			if got := v.Observations[0].Transport; got != "tcp" {
				t.Errorf("answered over %s, want tcp", got)
			}
		})
	})
}

func TestTruncatedReplyIsFetchedByTCP(t *testing.T) {
	truncated := func(z zone) zone {
		return func(q *dns.Msg) *dns.Msg {
			m := z(q)
			m.Truncated = true
			return m
		}
	}
	halfway := func(query []byte, send func([]byte)) {
		whole := truncated(holding(other, token)).packed(query)
		send(whole[:len(whole)-5])
	}
	tests := []struct {
		name   string
		udp    onUDP
		tcp    zone
		state  dnscheck.State
		reason dnscheck.Reason
	}{
		{"empty part", truncated(holding()).udp, holding(token), dnscheck.Present, dnscheck.ReasonFound},
		{"part holds the token, the whole too", truncated(holding(token)).udp, holding(other, token),
			dnscheck.Present, dnscheck.ReasonFound},
		{"part holds the token, the whole does not", truncated(holding(token)).udp, holding(other), dnscheck.Absent,
			dnscheck.ReasonOtherValue},
		{"part lacks the token", truncated(holding(other)).udp, holding(other, token),
			dnscheck.Present, dnscheck.ReasonFound},
		{"part ends in a record", halfway, holding(other, token), dnscheck.Present, dnscheck.ReasonFound},
		{"part says that the name does not exist", truncated(nothing).udp, holding(token),
			dnscheck.Present, dnscheck.ReasonFound},
		{"truncated over TCP too", truncated(holding(token)).udp, truncated(holding(token)), dnscheck.Unknown,
			dnscheck.ReasonMalformed},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			v := look(t, checker(t, serve(t, test.udp, test.tcp.tcp)))
			want(t, v, test.state, test.reason)
			if got := v.Observations[0].Transport; got != "tcp" {
				t.Errorf("answered over %s, want tcp", got)
			}
		})
	}
	t.Run("part holds the token, TCP is closed", func(t *testing.T) {
		v := look(t, checker(t, serve(t, truncated(holding(token)).udp, nil)))
		want(t, v, dnscheck.Unknown, dnscheck.ReasonUnreachable)
	})
}

func TestBrokenTCP(t *testing.T) {
	write := func(packed ...byte) onTCP {
		return func(_ []byte, conn net.Conn) { _, _ = conn.Write(packed) }
	}
	tests := []struct {
		name   string
		tcp    onTCP
		state  dnscheck.State
		reason dnscheck.Reason
	}{
		{"refused", nil, dnscheck.Unknown, dnscheck.ReasonUnreachable},
		{"closed without a reply", write(), dnscheck.Unknown, dnscheck.ReasonUnreachable},
		{"closed in the length", write(0), dnscheck.Unknown, dnscheck.ReasonMalformed},
		{"closed after the length", write(0, 40), dnscheck.Unknown, dnscheck.ReasonMalformed},
		{"length 65535 and little more", write(0xFF, 0xFF, 1, 2, 3), dnscheck.Unknown, dnscheck.ReasonMalformed},
		{"length 0 and closed", write(0, 0), dnscheck.Unknown, dnscheck.ReasonUnreachable},
		{"length 0, then the reply", func(query []byte, conn net.Conn) {
			_, _ = conn.Write([]byte{0, 0})
			holding(token).tcp(query, conn)
		}, dnscheck.Present, dnscheck.ReasonFound},
		{"length shorter than the reply", func(query []byte, conn net.Conn) {
			packed := frame(holding(token).packed(query))
			packed[1] -= 4
			_, _ = conn.Write(packed)
		}, dnscheck.Unknown, dnscheck.ReasonMalformed},
		{"another question's reply and closed", func(query []byte, conn net.Conn) {
			zone(func(q *dns.Msg) *dns.Msg {
				m := yes(q)
				m.Question[0].Name = "example.com."
				return m
			}).tcp(query, conn)
		}, dnscheck.Unknown, dnscheck.ReasonMalformed},
		{"byte by byte", func(query []byte, conn net.Conn) {
			for _, octet := range frame(holding(token).packed(query)) {
				_, _ = conn.Write([]byte{octet})
			}
		}, dnscheck.Present, dnscheck.ReasonFound},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			resolver := serve(t, silent, test.tcp)
			resolver.Transport = "tcp"
			want(t, look(t, checker(t, resolver)), test.state, test.reason)
		})
	}
}

func TestByteASecondOverTCPEndsWithTheTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := lookInMemory(t, memory{udp: unanswered, tcp: memoryTCP(func(query []byte, conn net.Conn) {
			for _, octet := range frame(holding(token).packed(query)) {
				if _, err := conn.Write([]byte{octet}); err != nil {
					return
				}
				time.Sleep(time.Second)
			}
		})})
		want(t, v, dnscheck.Unknown, dnscheck.ReasonTimeout)
		if took := v.Observations[0].Took; took != 2*dnscheck.DefaultTimeout {
			t.Errorf("took %s, want %s: one timeout over each transport", took, 2*dnscheck.DefaultTimeout)
		}
	})
}

func TestOneTransportDead(t *testing.T) {
	bubble(t, "UDP is silent and TCP answers", func(t *testing.T) {
		v := lookInMemory(t, memory{udp: unanswered, tcp: memoryTCP(holding(token).tcp)})
		want(t, v, dnscheck.Present, dnscheck.ReasonFound)
		if o := v.Observations[0]; o.Transport != "tcp" || o.Took != dnscheck.DefaultTimeout {
			t.Errorf("answered over %s after %s, want tcp after %s", o.Transport, o.Took, dnscheck.DefaultTimeout)
		}
	})
	t.Run("UDP is closed and TCP answers", func(t *testing.T) {
		v := look(t, checker(t, serve(t, nil, holding(token).tcp)))
		want(t, v, dnscheck.Present, dnscheck.ReasonFound)
	})
	t.Run("UDP answers and TCP is closed", func(t *testing.T) {
		v := look(t, checker(t, serve(t, holding(token).udp, nil)))
		want(t, v, dnscheck.Present, dnscheck.ReasonFound)
	})
	bubble(t, "UDP is silent and TCP is closed", func(t *testing.T) {
		want(t, lookInMemory(t, memory{udp: unanswered}), dnscheck.Unknown, dnscheck.ReasonTimeout)
	})
	t.Run("aliases do not wait for the dead UDP again", func(t *testing.T) {
		chain := chainOf(4, func(q *dns.Msg, at string) *dns.Msg { return answer(q, txt(at, token)) }, true)
		synctest.Test(t, func(t *testing.T) {
			v := lookInMemory(t, memory{udp: unanswered, tcp: memoryTCP(chain.tcp)})
			want(t, v, dnscheck.Present, dnscheck.ReasonFound)
			if took := v.Observations[0].Took; took != dnscheck.DefaultTimeout {
				t.Errorf("took %s, want one timeout, %s", took, dnscheck.DefaultTimeout)
			}
		})
	})
}

func TestPortClosedOnBoth(t *testing.T) {
	v := look(t, checker(t, serve(t, nil, nil)))
	want(t, v, dnscheck.Unknown, dnscheck.ReasonUnreachable)
}

func TestAnswersAroundTheTimeout(t *testing.T) {
	after := func(wait time.Duration, z zone) onUDP {
		return func(query []byte, send func([]byte)) {
			time.Sleep(wait)
			z.udp(query, send)
		}
	}
	tests := []struct {
		name   string
		udp    onUDP
		tcp    func(net.Conn)
		state  dnscheck.State
		reason dnscheck.Reason
	}{
		{"just before", after(dnscheck.DefaultTimeout-time.Millisecond, holding(token)), nil,
			dnscheck.Present, dnscheck.ReasonFound},
		{"just after", after(dnscheck.DefaultTimeout+time.Millisecond, holding(token)), nil, dnscheck.Unknown,
			dnscheck.ReasonTimeout},
		{"late yes, while TCP says no", after(dnscheck.DefaultTimeout+time.Millisecond, holding(token)),
			memoryTCP(func(query []byte, conn net.Conn) {
				time.Sleep(time.Second)
				holding(other).tcp(query, conn)
			}), dnscheck.Absent, dnscheck.ReasonOtherValue},
		{"never", func([]byte, func([]byte)) {}, nil, dnscheck.Unknown, dnscheck.ReasonTimeout},
	}
	for _, test := range tests {
		bubble(t, test.name, func(t *testing.T) {
			want(t, lookInMemory(t, memory{udp: memoryUDP(test.udp), tcp: test.tcp}), test.state, test.reason)
		})
	}
}

// TestLateReplyDoesNotReachTheNextCheck has the reply to the first check arrive during the
// second, which uses another port and id.
func TestLateReplyDoesNotReachTheNextCheck(t *testing.T) {
	var mu sync.Mutex
	var first func()
	asked := make(chan struct{}, 2)
	resolver := serve(t, func(query []byte, send func([]byte)) {
		mu.Lock()
		defer mu.Unlock()
		if first == nil {
			first = func() { send(holding(token).packed(query)) }
			asked <- struct{}{}
			return
		}
		first()
		send(holding(other).packed(query))
	}, nil)
	c := checker(t, resolver)
	abandon(t, c, asked)
	want(t, look(t, c), dnscheck.Absent, dnscheck.ReasonOtherValue)
}

func TestServersThatFailOnEDNS(t *testing.T) {
	for _, code := range []int{dns.RcodeFormatError, dns.RcodeNotImplemented, dns.RcodeBadVers} {
		name := dns.RcodeToString[code]
		stumble := func(q *dns.Msg) *dns.Msg {
			m := rcode(q, code)
			if code == dns.RcodeBadVers {
				m.SetEdns0(1232, false)
			}
			return m
		}
		t.Run(name+" and then plain", func(t *testing.T) {
			v := look(t, checker(t, both(t, func(q *dns.Msg) *dns.Msg {
				if q.IsEdns0() != nil {
					return stumble(q)
				}
				return holding(token)(q)
			})))
			want(t, v, dnscheck.Present, dnscheck.ReasonFound)
		})
		t.Run(name+" always", func(t *testing.T) {
			var queries counter
			v := look(t, checker(t, both(t, func(q *dns.Msg) *dns.Msg {
				queries.add(q)
				return stumble(q)
			})))
			want(t, v, dnscheck.Unknown, dnscheck.ReasonRCode)
			if len(queries.seen()) != 2 {
				t.Errorf("%d queries, want 2: one with EDNS, one without", len(queries.seen()))
			}
		})
	}
}

func TestQueryAsItGoesOut(t *testing.T) {
	var queries counter
	c := checker(t, both(t, func(q *dns.Msg) *dns.Msg {
		queries.add(q)
		return holding(token)(q)
	}))
	look(t, c)
	q := queries.seen()[0]
	if len(q.Question) != 1 || !asksFor(q, host) || q.Question[0].Qtype != dns.TypeTXT ||
		q.Question[0].Qclass != dns.ClassINET {
		t.Errorf("question %v, want the TXT records of %s", q.Question, host)
	}
	if !q.RecursionDesired || !q.AuthenticatedData || q.CheckingDisabled {
		t.Errorf("RD %t, AD %t, CD %t; want RD and AD", q.RecursionDesired, q.AuthenticatedData, q.CheckingDisabled)
	}
	if opt := q.IsEdns0(); opt == nil || opt.UDPSize() != 1232 {
		t.Errorf("EDNS %v, want 1232 bytes", opt)
	}
}

// TestPackedQueryEqualsTheCodecs compares packed queries with those of the codec.
func TestPackedQueryEqualsTheCodecs(t *testing.T) {
	longest := strings.Repeat(strings.Repeat("a", 63)+".", 3) + strings.Repeat("b", 61) + "."
	for _, name := range []string{host + ".", longest, `a\.b\032c.example.com.`} {
		for form := range 8 {
			edns, padded, straight := form&1 != 0, form&2 != 0, form&4 != 0
			got, err := dnscheck.PackQueryAs(name, edns, padded, straight)
			if err != nil {
				t.Fatal(name, err)
			}
			m := new(dns.Msg)
			m.SetQuestion(name, dns.TypeTXT)
			m.Id, m.RecursionDesired, m.AuthenticatedData = 1, !straight, true
			if edns {
				m.SetEdns0(1232, false)
			}
			if edns && padded { // to a multiple of 128 (RFC 8467 section 4.1)
				opt := m.IsEdns0()
				opt.Option = append(opt.Option, &dns.EDNS0_PADDING{})
				opt.Option[0] = &dns.EDNS0_PADDING{Padding: make([]byte, (128-m.Len()%128)%128)}
			}
			want, err := m.Pack()
			if err != nil {
				t.Fatal(name, err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("%s, EDNS %t, padded %t, straight %t:\n got %x\nwant %x", name, edns, padded, straight, got, want)
			}
		}
	}
}

func TestEachQueryHasItsOwnIDAndPort(t *testing.T) {
	const looks = 40
	var mu sync.Mutex
	ids, ports := map[uint16]bool{}, map[string]bool{}
	packets, listener := listen(t)
	_ = listener.Close()
	var running sync.WaitGroup
	running.Go(func() {
		buffer := make([]byte, 1500)
		for {
			n, from, err := packets.ReadFrom(buffer)
			if err != nil {
				return
			}
			mu.Lock()
			ids[binary.BigEndian.Uint16(buffer)], ports[from.String()] = true, true
			mu.Unlock()
			_, _ = packets.WriteTo(holding(token).packed(buffer[:n]), from)
		}
	})
	defer running.Wait()
	defer func() { _ = packets.Close() }()
	c := checker(t, dnscheck.Resolver{Addr: packets.LocalAddr().(*net.UDPAddr).AddrPort()})
	for range looks {
		look(t, c)
	}
	mu.Lock()
	defer mu.Unlock()
	// Some random numbers may be equal, but not half of them.
	if len(ids) < looks/2 || len(ports) < looks/2 {
		t.Errorf("%d ids and %d ports in %d looks", len(ids), len(ports), looks)
	}
}

// counter records queries.
type counter struct {
	mu      sync.Mutex
	queries []*dns.Msg
}

func (c *counter) add(q *dns.Msg) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queries = append(c.queries, q)
}

func (c *counter) seen() []*dns.Msg {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]*dns.Msg(nil), c.queries...)
}

// fillers returns n values other than the token.
func fillers(n int) []string {
	values := make([]string, n)
	for i := range values {
		values[i] = "filler"
	}
	return values
}

// lookInMemory returns the verdict of a check in an in-process network, with the default
// timeout.
func lookInMemory(t *testing.T, m memory) dnscheck.Verdict {
	t.Helper()
	c, err := dnscheck.NewOver(dnscheck.Config{Resolvers: anyResolver(1)}, m.dial(t))
	if err != nil {
		t.Fatal(err)
	}
	return look(t, c)
}
