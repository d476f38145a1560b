package dnscheck_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"

	"orgops/dnscheck"
)

const (
	host  = "_Verify.Org-1.Example.com" // mixed case must be preserved
	token = "0123456789abcdef0123456789abcdef"
	other = "another-value"
	older = "fedcba9876543210fedcba9876543210" // of the form of token

	// long is a timeout that no test waits for: a test that does hangs.
	long = time.Hour
)

// onUDP answers one datagram. It may call send any number of times.
type onUDP func(query []byte, send func([]byte))

// onTCP handles a connection after its query was read.
type onTCP func(query []byte, conn net.Conn)

// serve runs a server on loopback until the test ends. A nil handler leaves the port of its
// transport closed.
func serve(t *testing.T, udp onUDP, tcp onTCP) dnscheck.Resolver {
	t.Helper()
	packets, listener := listen(t)
	serveOn(t, packets, listener, udp, tcp)
	return dnscheck.Resolver{Addr: listener.Addr().(*net.TCPAddr).AddrPort(), Transport: "udp"}
}

func serveOn(t *testing.T, packets net.PacketConn, listener net.Listener, udp onUDP, tcp onTCP) {
	t.Helper()
	var running sync.WaitGroup
	if udp == nil {
		_ = packets.Close()
	} else {
		running.Go(func() { servePackets(packets, udp, &running) })
	}
	connections := new(open)
	if tcp == nil {
		_ = listener.Close()
	} else {
		running.Go(func() { serveStreams(listener, tcp, connections, &running) })
	}
	t.Cleanup(func() {
		_ = packets.Close()
		_ = listener.Close()
		connections.close()
		running.Wait()
	})
}

// listen opens a port for both transports.
func listen(t *testing.T) (net.PacketConn, net.Listener) {
	t.Helper()
	for range 50 {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		packets, err := net.ListenPacket("udp", listener.Addr().String())
		if err == nil {
			return packets, listener
		}
		_ = listener.Close()
	}
	t.Fatal("no port is free for both UDP and TCP")
	return nil, nil
}

func servePackets(conn net.PacketConn, handle onUDP, running *sync.WaitGroup) {
	buffer := make([]byte, 65535)
	for {
		n, from, err := conn.ReadFrom(buffer)
		if err != nil {
			return
		}
		query := append([]byte(nil), buffer[:n]...)
		running.Go(func() {
			handle(query, func(b []byte) { _, _ = conn.WriteTo(b, from) })
		})
	}
}

func serveStreams(listener net.Listener, handle onTCP, connections *open, running *sync.WaitGroup) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		connections.add(conn)
		running.Go(func() {
			defer func() { _ = conn.Close() }()
			if query, err := readFrame(conn); err == nil {
				handle(query, conn)
			}
		})
	}
}

// open closes all connections at the end of a test, so that no handler blocks on one.
type open struct {
	mu    sync.Mutex
	conns []net.Conn
}

func (o *open) add(c net.Conn) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.conns = append(o.conns, c)
}

func (o *open) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, c := range o.conns {
		_ = c.Close()
	}
}

func readFrame(conn net.Conn) ([]byte, error) {
	var length [2]byte
	if _, err := io.ReadFull(conn, length[:]); err != nil {
		return nil, err
	}
	message := make([]byte, binary.BigEndian.Uint16(length[:]))
	_, err := io.ReadFull(conn, message)
	return message, err
}

func frame(message []byte) []byte {
	return append(binary.BigEndian.AppendUint16(nil, uint16(len(message))), message...)
}

// zone answers a query. Its reply is sent at any length.
type zone func(q *dns.Msg) *dns.Msg

func (z zone) udp(query []byte, send func([]byte)) { send(z.packed(query)) }

func (z zone) tcp(query []byte, conn net.Conn) { _, _ = conn.Write(frame(z.packed(query))) }

func (z zone) packed(query []byte) []byte {
	q := new(dns.Msg)
	if err := q.Unpack(query); err != nil {
		panic(fmt.Sprintf("the query cannot be read: %v", err))
	}
	packed, err := z(q).Pack()
	if err != nil {
		panic(fmt.Sprintf("the test's reply cannot be written: %v", err))
	}
	return packed
}

// asksFor compares the queried name with name, ignoring case.
func asksFor(q *dns.Msg, name string) bool {
	return dns.CanonicalName(q.Question[0].Name) == dns.CanonicalName(name)
}

// both serves a zone over UDP and TCP.
func both(t *testing.T, z zone) dnscheck.Resolver {
	t.Helper()
	return serve(t, z.udp, z.tcp)
}

// silent reads queries and never answers.
func silent([]byte, func([]byte)) {}

// memory is an in-process network whose connections follow the clock of a synctest bubble. A
// nil handler refuses connections.
type memory struct {
	udp, tcp func(conn net.Conn)
}

// dial returns a DialFunc. The test ends after its handlers have returned.
func (m memory) dial(t *testing.T) dnscheck.DialFunc {
	var running sync.WaitGroup
	t.Cleanup(running.Wait)
	return func(_ context.Context, network, _ string) (net.Conn, error) {
		handle := m.udp
		if network == "tcp" {
			handle = m.tcp
		}
		if handle == nil {
			return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
		}
		near, far := net.Pipe()
		running.Go(func() {
			defer func() { _ = far.Close() }()
			handle(far)
		})
		return near, nil
	}
}

// unanswered reads until the peer closes the connection.
func unanswered(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }

// memoryUDP adapts an onUDP handler to a memory connection.
func memoryUDP(handle onUDP) func(net.Conn) {
	return func(conn net.Conn) {
		buffer := make([]byte, 4096)
		n, err := conn.Read(buffer)
		if err != nil {
			return
		}
		handle(buffer[:n], func(b []byte) { _, _ = conn.Write(b) })
		unanswered(conn)
	}
}

func memoryTCP(handle onTCP) func(net.Conn) {
	return func(conn net.Conn) {
		if query, err := readFrame(conn); err == nil {
			handle(query, conn)
		}
	}
}

// answer returns a reply of a recursive resolver.
func answer(q *dns.Msg, records ...dns.RR) *dns.Msg {
	m := new(dns.Msg)
	m.SetReply(q)
	m.RecursionAvailable = true
	m.Answer = records
	return m
}

func rcode(q *dns.Msg, code int) *dns.Msg {
	m := answer(q)
	m.Rcode = code
	return m
}

// holding answers every name with these values, one TXT record each.
func holding(values ...string) zone {
	return func(q *dns.Msg) *dns.Msg {
		m := answer(q)
		for _, v := range values {
			m.Answer = append(m.Answer, txt(q.Question[0].Name, v))
		}
		return m
	}
}

// nothing answers NXDOMAIN for every name.
func nothing(q *dns.Msg) *dns.Msg { return rcode(q, dns.RcodeNameError) }

// txt returns a TXT record of these strings, given as raw bytes.
func txt(owner string, parts ...string) *dns.TXT {
	record := &dns.TXT{Hdr: header(owner, dns.TypeTXT, 300)}
	for _, p := range parts {
		var escaped strings.Builder
		for _, octet := range []byte(p) {
			fmt.Fprintf(&escaped, `\%03d`, octet)
		}
		record.Txt = append(record.Txt, escaped.String())
	}
	return record
}

func cname(owner, target string) *dns.CNAME {
	return &dns.CNAME{Hdr: header(owner, dns.TypeCNAME, 300), Target: dns.Fqdn(target)}
}

func soa(owner string, ttl, minimum uint32) *dns.SOA {
	return &dns.SOA{Hdr: header(owner, dns.TypeSOA, ttl), Ns: "ns.example.com.", Mbox: "root.example.com.",
		Serial: 1, Minttl: minimum}
}

func ns(owner, target string) *dns.NS {
	return &dns.NS{Hdr: header(owner, dns.TypeNS, 300), Ns: dns.Fqdn(target)}
}

func header(owner string, kind uint16, ttl uint32) dns.RR_Header {
	return dns.RR_Header{Name: dns.Fqdn(owner), Rrtype: kind, Class: dns.ClassINET, Ttl: ttl}
}

// checker returns a Checker whose timeout no test waits for.
func checker(t *testing.T, resolvers ...dnscheck.Resolver) *dnscheck.Checker {
	t.Helper()
	return build(t, dnscheck.Config{Resolvers: resolvers, Timeout: long})
}

func build(t *testing.T, c dnscheck.Config) *dnscheck.Checker {
	t.Helper()
	checker, err := dnscheck.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(checker.Close) // runs before the servers close
	return checker
}

// look returns the verdict of a check for the host and token.
func look(t *testing.T, c *dnscheck.Checker) dnscheck.Verdict {
	t.Helper()
	v, err := c.Check(t.Context(), host, token)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func want(t *testing.T, v dnscheck.Verdict, state dnscheck.State, reason dnscheck.Reason) {
	t.Helper()
	if v.State != state || v.Reason != reason {
		t.Errorf("verdict %s (%s), want %s (%s); observations: %+v", v.State, v.Reason, state, reason, v.Observations)
	}
}

func asQuestionError(err error) bool {
	var q *dnscheck.QuestionError
	return errors.As(err, &q)
}

func anyResolver(n int) []dnscheck.Resolver {
	var resolvers []dnscheck.Resolver
	for i := range n {
		resolvers = append(resolvers, dnscheck.Resolver{
			Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(i + 1)}), 53),
		})
	}
	return resolvers
}
