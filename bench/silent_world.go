package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/miekg/dns"

	"orgops/dnscheck"
)

// world is a DNS of one top-level domain, test., at loopback addresses: each name
// has a domain of its own. Domains that begin with an s are on two name servers
// of their own that hear all and say nothing, and resolvers do not answer for them
// in time; the others are on two that do.
type world struct {
	port    uint16
	servers []*dns.Server
	mute    []interface{ Close() error }
}

// Addresses of it; those that say nothing follow muteFirst, two a domain.
var (
	resolverAddrs = []string{"127.0.0.1", "127.0.0.2", "127.0.0.3"} // as many as a worker asks by default
	topAddr       = "127.0.0.4"
	liveAddrs     = []string{"127.0.0.5", "127.0.0.6"}
	muteFirst     = netip.MustParseAddr("127.0.1.1")
)

// hostAt is where the n-th name's token is.
func hostAt(n int, silent bool) string {
	if silent {
		return fmt.Sprintf("_verify.s%05d.test", n)
	}
	return fmt.Sprintf("_verify.d%05d.test", n)
}

func isSilent(name string) bool { return strings.HasPrefix(name, "_verify.s") }

// openWorld opens it, with as many domains that are silent.
func openWorld(ctx context.Context, silent int) (w *world, err error) {
	port, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	w = &world{}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.close())
		}
	}()
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return nil, err
	}
	w.port = uint16(number)
	for _, addr := range resolverAddrs {
		err = errors.Join(err, w.serve(ctx, addr, resolve))
	}
	err = errors.Join(err, w.serve(ctx, topAddr, refer))
	for _, addr := range liveAddrs {
		err = errors.Join(err, w.serve(ctx, addr, holdToken))
	}
	for addr, n := muteFirst, 0; n < 2*silent; addr, n = addr.Next(), n+1 {
		err = errors.Join(err, w.hear(ctx, addr.String()))
	}
	return w, err
}

func (w *world) at(addr string) string { return net.JoinHostPort(addr, strconv.Itoa(int(w.port))) }

// serve answers at an address over UDP and TCP.
func (w *world) serve(ctx context.Context, addr string, handle dns.HandlerFunc) error {
	packets, err := new(net.ListenConfig).ListenPacket(ctx, "udp", w.at(addr))
	if err != nil {
		return fmt.Errorf("a name server of the benchmark: %w", err)
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", w.at(addr))
	if err != nil {
		return errors.Join(fmt.Errorf("a name server of the benchmark: %w", err), packets.Close())
	}
	for _, server := range []*dns.Server{{PacketConn: packets, Handler: handle}, {Listener: listener, Handler: handle}} {
		w.servers = append(w.servers, server)
		started := make(chan struct{})
		server.NotifyStartedFunc = func() { close(started) }
		go func() { _ = server.ActivateAndServe() }() // ends with close; till then looks would tell
		<-started
	}
	return nil
}

// hear takes queries at an address over UDP and TCP, and answers none.
func (w *world) hear(ctx context.Context, addr string) error {
	packets, err := new(net.ListenConfig).ListenPacket(ctx, "udp", w.at(addr))
	if err != nil {
		return fmt.Errorf("a silent name server of the benchmark: %w", err)
	}
	w.mute = append(w.mute, packets)
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", w.at(addr))
	if err != nil {
		return fmt.Errorf("a silent name server of the benchmark: %w", err)
	}
	w.mute = append(w.mute, listener)
	return nil
}

func (w *world) close() error {
	var all []error
	for _, s := range w.servers {
		all = append(all, s.Shutdown())
	}
	for _, m := range w.mute {
		all = append(all, m.Close())
	}
	return errors.Join(all...)
}

// checker asks this world as a worker asks the real one.
func (w *world) checker(mode dnscheck.Mode) (*dnscheck.Checker, error) {
	c := dnscheck.Config{Mode: mode, NameServerPort: w.port, AnyNameServer: true}
	for _, addr := range resolverAddrs {
		r, err := dnscheck.ParseResolver(w.at(addr))
		if err != nil {
			return nil, err
		}
		c.Resolvers = append(c.Resolvers, r)
	}
	return dnscheck.New(c)
}

// resolve answers as a resolver, for silent domains too late.
func resolve(out dns.ResponseWriter, q *dns.Msg) {
	name := strings.ToLower(q.Question[0].Name)
	switch m := replyTo(q); {
	case isSilent(name):
	case name == "test.":
		send(out, m, "test. 3600 NS a.nic.test.")
	case name == "a.nic.test." && q.Question[0].Qtype == dns.TypeA:
		send(out, m, name+" 3600 A "+topAddr)
	case strings.HasPrefix(name, "_verify."):
		send(out, m, q.Question[0].Name+" 60 TXT "+lookupToken)
	default: // no IPv6 here
		send(out, m)
	}
}

// refer answers as a server of the top-level domain: for each domain with its name
// servers.
func refer(out dns.ResponseWriter, q *dns.Msg) {
	name := strings.ToLower(q.Question[0].Name)
	m := replyTo(q)
	m.Authoritative = false
	domain := strings.TrimPrefix(name, "_verify.")
	if !isSilent(name) {
		if strings.HasSuffix(name, ".live.test.") {
			domain = "live.test."
		}
		for i, addr := range liveAddrs {
			server := fmt.Sprintf("ns%d.live.test.", i+1)
			m.Ns, m.Extra = append(m.Ns, record(domain+" 3600 NS "+server)), append(m.Extra, record(server+" 3600 A "+addr))
		}
		send(out, m)
		return
	}
	number, err := strconv.Atoi(domain[1:6])
	if err != nil {
		return
	}
	addr := muteFirst
	for range 2 * number {
		addr = addr.Next()
	}
	for i, at := range []netip.Addr{addr, addr.Next()} {
		server := fmt.Sprintf("ns%d.%s", i+1, domain)
		m.Ns = append(m.Ns, record(domain+" 3600 NS "+server))
		m.Extra = append(m.Extra, record(server+" 3600 A "+at.String()))
	}
	send(out, m)
}

// holdToken answers as a domain's own name server.
func holdToken(out dns.ResponseWriter, q *dns.Msg) {
	send(out, replyTo(q), q.Question[0].Name+" 60 TXT "+lookupToken)
}

func replyTo(q *dns.Msg) *dns.Msg {
	m := new(dns.Msg)
	m.SetReply(q)
	m.Authoritative, m.RecursionAvailable = true, true
	return m
}

func send(out dns.ResponseWriter, m *dns.Msg, answer ...string) {
	for _, text := range answer {
		m.Answer = append(m.Answer, record(text))
	}
	_ = out.WriteMsg(m) // whoever asked will tell what has not come
}

// record reads one that is written in this file.
func record(text string) dns.RR {
	rr, err := dns.NewRR(text)
	if err != nil {
		panic(fmt.Sprintf("bench: %s: %v", text, err))
	}
	return rr
}
