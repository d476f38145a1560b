package sandbox

import (
	"errors"
	"net"
	"sync"

	"github.com/miekg/dns"
)

// dnsServer answers for the zone over UDP and TCP, as a recursive resolver
// does: RA is set, aliases are followed.
type dnsServer struct {
	zone    *zone
	addrs   []net.Addr // the first is the configured one
	servers []*dns.Server
	serving sync.WaitGroup
}

// startDNS serves the zone at n addresses: addr, and free ports of its host.
func startDNS(addr string, n int, z *zone) (*dnsServer, error) {
	d := &dnsServer{zone: z}
	for range n {
		stream, packets, err := listenBoth(addr)
		if err != nil {
			return nil, errors.Join(err, d.close())
		}
		d.addrs = append(d.addrs, stream.Addr())
		d.serve(&dns.Server{Listener: stream, Handler: d.handler("tcp")})
		d.serve(&dns.Server{PacketConn: packets, Handler: d.handler("udp")})
		if host, _, err := net.SplitHostPort(addr); err == nil {
			addr = net.JoinHostPort(host, "0")
		}
	}
	return d, nil
}

// listenBoth opens one port for both transports. It tries others, since a port that is free
// for TCP may be in use for UDP.
func listenBoth(addr string) (net.Listener, net.PacketConn, error) {
	var errs error
	for range 20 {
		stream, err := net.Listen("tcp", addr)
		if err != nil {
			return nil, nil, err
		}
		packets, err := net.ListenPacket("udp", stream.Addr().String())
		if err == nil {
			return stream, packets, nil
		}
		errs = errors.Join(err, stream.Close())
		if _, port, _ := net.SplitHostPort(addr); port != "0" {
			break
		}
	}
	return nil, nil, errs
}

// serve starts a server and waits until it has started: before, it cannot be shut down.
func (d *dnsServer) serve(server *dns.Server) {
	started := make(chan struct{})
	server.NotifyStartedFunc = sync.OnceFunc(func() { close(started) })
	d.servers = append(d.servers, server)
	d.serving.Go(func() { _ = server.ActivateAndServe() }) // its error is that it was shut down
	<-started
}

func (d *dnsServer) close() error {
	var errs error
	for _, server := range d.servers {
		errs = errors.Join(errs, server.Shutdown())
	}
	d.serving.Wait()
	return errs
}

func (d *dnsServer) handler(transport string) dns.Handler {
	return dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
		if m := d.reply(r, transport); m != nil {
			_ = w.WriteMsg(m) // the client may have disconnected
		}
	})
}

// reply returns the answer to a message of one question; nil: no answer.
func (d *dnsServer) reply(r *dns.Msg, transport string) *dns.Msg {
	m := new(dns.Msg).SetReply(r)
	m.RecursionAvailable = true
	m.CheckingDisabled = r.CheckingDisabled
	size := dns.MinMsgSize
	if opt := r.IsEdns0(); opt != nil {
		m.SetEdns0(dns.DefaultMsgSize, opt.Do())
		size = int(min(opt.UDPSize(), dns.DefaultMsgSize))
		if opt.Version() != 0 {
			m.Rcode = dns.RcodeBadVers
			return m
		}
	}
	if r.Opcode != dns.OpcodeQuery {
		m.Rcode = dns.RcodeNotImplemented
		return m
	}
	q := r.Question[0]
	if q.Qclass != dns.ClassINET {
		m.Rcode = dns.RcodeRefused
		return m
	}
	if !d.zone.answer(q, transport, m) {
		return nil
	}
	if transport == "udp" {
		m.Truncate(size)
	} else {
		m.Truncate(dns.MaxMsgSize) // the limit of TCP's length field
	}
	return m
}
