package dnschecktest

import (
	"net"
	"sync"
	"testing"

	"github.com/miekg/dns"

	"orgops/dnscheck"
)

// ExampleCom returns a checker whose only resolver knows the name servers of example.com, which are
// those of a provider, and one TXT record, token-1 at there.example.com.
func ExampleCom(t *testing.T) *dnscheck.Checker {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	up := make(chan struct{})
	server := &dns.Server{PacketConn: conn, NotifyStartedFunc: func() { close(up) }, Handler: dns.HandlerFunc(exampleCom)}
	var running sync.WaitGroup
	running.Go(func() { _ = server.ActivateAndServe() })
	<-up
	t.Cleanup(running.Wait)
	t.Cleanup(func() { _ = server.Shutdown() })
	checker, err := dnscheck.New(dnscheck.Config{Resolvers: []dnscheck.Resolver{
		{Addr: conn.LocalAddr().(*net.UDPAddr).AddrPort(), Transport: "udp"}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(checker.Close)
	return checker
}

// exampleCom answers as that resolver.
func exampleCom(w dns.ResponseWriter, q *dns.Msg) {
	m := new(dns.Msg)
	m.SetReply(q)
	m.RecursionAvailable = true
	name := dns.CanonicalName(q.Question[0].Name)
	head := dns.RR_Header{Name: q.Question[0].Name, Rrtype: q.Question[0].Qtype, Class: dns.ClassINET, Ttl: 60}
	switch {
	case name == "example.com." && head.Rrtype == dns.TypeNS:
		m.Answer = []dns.RR{&dns.NS{Hdr: head, Ns: "ns47.domaincontrol.com."},
			&dns.NS{Hdr: head, Ns: "ns48.domaincontrol.com."}}
	case name == "there.example.com." && head.Rrtype == dns.TypeTXT:
		m.Answer = []dns.RR{&dns.TXT{Hdr: head, Txt: []string{"token-1"}}}
	case name != "example.com.":
		m.Rcode = dns.RcodeNameError
	}
	_ = w.WriteMsg(m)
}
