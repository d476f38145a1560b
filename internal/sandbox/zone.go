package sandbox

import (
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"
)

const (
	aliasHops = 16  // CNAMEs before the answer is SERVFAIL, as of resolvers
	stringMax = 255 // bytes of one string of a TXT record (RFC 1035, 3.3)
)

// Query is a DNS query.
type Query struct {
	Seq       int64     `json:"seq"` // counts from 1 in order of arrival
	At        time.Time `json:"at"`
	Name      string    `json:"name"` // in the case of the query, with its last dot
	Type      string    `json:"type"` // "TXT"
	Transport string    `json:"transport"`
	RCode     string    `json:"rcode"` // of the answer; empty: there was none
}

type zone struct {
	clock func() time.Time
	ttl   uint32 // seconds

	mu      sync.Mutex
	names   map[string]*node // by canonical name
	below   map[string]int   // the number of names with data below this one
	queries tail[Query]
	counts  *counts
}

// node is one name. It exists if its records are not nil, even if they are empty, or it has name
// servers.
type node struct {
	records [][]string // TXT, each in its strings
	ns      []string
	cname   string

	later [][]string // the records from due on
	due   time.Time  // zero: records do not change

	rcode  int
	rcodes int // the number of next answers with that code; below 0: all
	silent bool
}

func newZone(o Options) *zone {
	ttl := (o.NegativeTTL + time.Second - 1) / time.Second
	return &zone{
		clock: o.Clock, ttl: uint32(min(ttl, 1<<31-1)),
		names: map[string]*node{}, below: map[string]int{}, queries: tail[Query]{least: o.Remember}, counts: newCounts(),
	}
}

func (n *node) hasData() bool {
	return n.records != nil || n.ns != nil || n.cname != "" || !n.due.IsZero()
}

// edit changes a name, which it adds if necessary, and updates the counts of its parents.
// Records that are due later count already.
func (z *zone) edit(host string, change func(*node)) {
	name := dns.CanonicalName(host)
	z.mu.Lock()
	defer z.mu.Unlock()
	n, ok := z.names[name]
	if !ok {
		n = &node{}
		z.names[name] = n
	}
	before := n.hasData()
	change(n)
	if now := n.hasData(); now != before {
		step := 1
		if before {
			step = -1
		}
		for at, end := dns.NextLabel(name, 0); !end; at, end = dns.NextLabel(name, at) {
			parent := name[at:]
			if z.below[parent] += step; z.below[parent] == 0 {
				delete(z.below, parent)
			}
		}
	}
	if !n.hasData() && n.rcodes == 0 && !n.silent {
		delete(z.names, name)
	}
}

// SetTXT sets the TXT records of a host, one for each value; a value of more than 255 bytes
// is split into several strings of one record. Without values the host exists and has no
// TXT record. It removes a CNAME of the host and cancels SetTXTAt. A host that begins with
// "*." is a wildcard.
func (s *Sandbox) SetTXT(host string, values ...string) {
	s.SetTXTStrings(host, wholeStrings(values)...)
}

// SetTXTStrings is SetTXT with the strings of each record, of at most 255 bytes each.
func (s *Sandbox) SetTXTStrings(host string, records ...[]string) {
	s.zone.edit(host, func(n *node) {
		n.records = append([][]string{}, records...) // never nil
		n.cname = ""
		n.due = time.Time{}
	})
}

// SetTXTAt is SetTXT after a time, by the sandbox's clock. The host does not change before.
func (s *Sandbox) SetTXTAt(host string, after time.Duration, values ...string) {
	due := s.now().Add(after)
	s.zone.edit(host, func(n *node) {
		n.later = wholeStrings(values)
		n.due = due
	})
}

// SetCNAME makes a host an alias, and removes its TXT records.
func (s *Sandbox) SetCNAME(host, target string) {
	s.zone.edit(host, func(n *node) {
		n.records = nil
		n.cname = dns.Fqdn(target)
		n.due = time.Time{}
	})
}

// SetNS sets the name servers of a zone; without servers it has no NS records. They only have
// names: the sandbox answers all queries itself.
func (s *Sandbox) SetNS(zone string, servers ...string) {
	s.zone.edit(zone, func(n *node) { n.ns = append([]string(nil), servers...) })
}

// SetRCode answers the next queries for a host, below 0 all, with a response code
// (dns.RcodeServerFailure and so on); 0 ends that.
func (s *Sandbox) SetRCode(host string, rcode, queries int) {
	s.zone.edit(host, func(n *node) {
		n.rcode = rcode
		n.rcodes = queries
	})
}

// Unresponsive ignores queries for a host, or ends that.
func (s *Sandbox) Unresponsive(host string, silent bool) {
	s.zone.edit(host, func(n *node) { n.silent = silent })
}

// Remove removes a host with all its settings.
func (s *Sandbox) Remove(host string) { s.zone.edit(host, func(n *node) { *n = node{} }) }

// Queries returns the last DNS queries, oldest first, as many as Options.Remember.
func (s *Sandbox) Queries() []Query {
	s.zone.mu.Lock()
	defer s.zone.mu.Unlock()
	return s.zone.queries.since(0)
}

// wholeStrings splits each value into strings of the longest permitted length.
func wholeStrings(values []string) [][]string {
	records := make([][]string, len(values))
	for i, v := range values {
		for len(v) > stringMax {
			records[i] = append(records[i], v[:stringMax])
			v = v[stringMax:]
		}
		records[i] = append(records[i], v)
	}
	return records
}

// answer fills in the reply to one question, in the case of its name; false: no reply.
func (z *zone) answer(q dns.Question, transport string, m *dns.Msg) bool {
	z.mu.Lock()
	defer z.mu.Unlock()
	answered := z.resolve(q, m)
	entry := Query{
		Seq: z.queries.next(), At: z.clock(), Name: q.Name,
		Type: dns.Type(q.Qtype).String(), Transport: transport,
	}
	if answered {
		entry.RCode = dns.RcodeToString[m.Rcode]
	}
	z.queries.add(entry)
	z.counts.add("", dns.CanonicalName(q.Name)+" "+entry.Type, entry.RCode)
	return answered
}

func (z *zone) resolve(q dns.Question, m *dns.Msg) bool {
	if n := z.at(dns.CanonicalName(q.Name)); n != nil {
		if n.silent {
			return false
		}
		if n.rcodes != 0 {
			n.rcodes = max(n.rcodes-1, -1)
			m.Rcode = n.rcode
			return true
		}
	}
	name := q.Name
	for range aliasHops {
		n := z.covering(dns.CanonicalName(name))
		if n == nil || n.cname == "" {
			z.end(name, n, q.Qtype, m)
			return true
		}
		m.Answer = append(m.Answer, &dns.CNAME{Hdr: z.header(name, dns.TypeCNAME), Target: n.cname})
		if q.Qtype == dns.TypeCNAME {
			return true
		}
		name = n.cname
	}
	m.Answer = nil
	m.Rcode = dns.RcodeServerFailure // a loop, or a chain that no resolver follows
	return true
}

// end fills in the answer for the last name of a chain of aliases.
func (z *zone) end(name string, n *node, qtype uint16, m *dns.Msg) {
	exists := n != nil && (n.records != nil || n.ns != nil)
	aliases := len(m.Answer)
	if exists && (qtype == dns.TypeTXT || qtype == dns.TypeANY) {
		for _, r := range n.records {
			m.Answer = append(m.Answer, &dns.TXT{Hdr: z.header(name, dns.TypeTXT), Txt: presented(r)})
		}
	}
	if exists && qtype == dns.TypeNS {
		for _, server := range n.ns {
			m.Answer = append(m.Answer, &dns.NS{Hdr: z.header(name, dns.TypeNS), Ns: dns.Fqdn(server)})
		}
	}
	if len(m.Answer) > aliases {
		return
	}
	if !exists && name != "." && z.below[dns.CanonicalName(name)] == 0 {
		m.Rcode = dns.RcodeNameError
	}
	m.Ns = append(m.Ns, z.soa(name))
}

// covering returns the name's node, or the node of the wildcard that covers it: the one
// below the closest existing parent (RFC 4592).
func (z *zone) covering(name string) *node {
	if n := z.at(name); n != nil || z.below[name] > 0 {
		return n
	}
	for at, end := dns.NextLabel(name, 0); !end; at, end = dns.NextLabel(name, at) {
		if parent := name[at:]; z.at(parent) != nil || z.below[parent] > 0 {
			return z.at("*." + parent)
		}
	}
	return nil
}

// at returns the name's node, with records that have become due; nil: there is none.
func (z *zone) at(name string) *node {
	n := z.names[name]
	if n != nil && !n.due.IsZero() && !z.clock().Before(n.due) {
		n.records = n.later
		n.cname = ""
		n.later = nil
		n.due = time.Time{}
	}
	return n
}

func (z *zone) header(name string, rrtype uint16) dns.RR_Header {
	return dns.RR_Header{Name: name, Rrtype: rrtype, Class: dns.ClassINET, Ttl: z.ttl}
}

// soa returns the SOA record of a negative answer, of the zone of the last two labels. Its
// TTL and MINIMUM are the negative TTL (RFC 2308).
func (z *zone) soa(name string) dns.RR {
	apex := dns.CanonicalName(name)
	if labels := dns.Split(apex); len(labels) > 2 {
		apex = apex[labels[len(labels)-2]:]
	}
	return &dns.SOA{
		Hdr: z.header(apex, dns.TypeSOA), Ns: "ns1." + strings.TrimPrefix(apex, "."),
		Mbox:   "hostmaster." + strings.TrimPrefix(apex, "."),
		Serial: 1, Refresh: 3600, Retry: 600, Expire: 86400, Minttl: z.ttl,
	}
}

// presented escapes strings for the codec, for which \ begins an escape.
func presented(strs []string) []string {
	escaped := make([]string, len(strs))
	for i, s := range strs {
		escaped[i] = strings.ReplaceAll(s, `\`, `\\`)
	}
	return escaped
}
