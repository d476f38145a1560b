package dnscheck

import (
	"context"
	"net"
	"net/netip"
	"time"

	"github.com/miekg/dns"
)

// Internals for tests in package dnscheck_test.

var (
	Unescape   = unescape
	MaxAliases = maxAliases
)

const (
	MaxQueries    = maxQueries
	MaxLookups    = maxLookups
	MaxShown      = maxServerObservations
	CheckTime     = checkTime
	DiagnosisTime = diagnosisTime
	MaxFound      = maxFound
	LookupTime    = lookupTime
	Grace         = gracePeriod
	MaxServers    = maxServers
	MaxDepth      = maxDepth
	MaxAddrs      = maxAddrs
	MaxCached     = maxCached
	MaxRecords    = maxRecords
)

// AddressIn returns the address in an A or AAAA record; the zero value: it is another record.
func AddressIn(record dns.RR) netip.Addr {
	addr, _ := addressIn(record)
	return addr
}

// DialFunc replaces the network.
type DialFunc func(ctx context.Context, network, address string) (net.Conn, error)

func (f DialFunc) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	return f(ctx, network, address)
}

// NewOver returns a Checker that dials with d.
func NewOver(c Config, d DialFunc) (*Checker, error) {
	return newChecker(c, d)
}

// ReadReply parses a reply to a query with this id for the host, and returns its result.
func ReadReply(raw []byte, id uint16,
	host, token string) (sections [3]int, state State, reason Reason, values []string, err error) {
	path := newAliasPath(host)
	r, err := parseReply(raw, id, path.name, dns.TypeTXT)
	if err != nil || r.truncated {
		return sections, Unknown, "", nil, err
	}
	found := path.read(r, token)
	sections = [3]int{len(r.answer), len(r.authority), len(r.additional)}
	return sections, found.state, found.reason, found.values, nil
}

// ServerAnswer is the answer of a zone's name server.
type ServerAnswer struct {
	State   State
	Alias   string
	Down    string   // child zone of a referral
	Servers []string // its name servers
	Glue    []string // the name servers with addresses
}

// ReadServerAnswer reads the reply of a name server of zone.
func ReadServerAnswer(raw []byte, id uint16, zone, host, token string) (ServerAnswer, error) {
	name := newAliasPath(host).name
	r, err := parseReply(raw, id, name, dns.TypeTXT)
	if err != nil || r.truncated {
		return ServerAnswer{}, err
	}
	a := readServerAnswer(r, zone, name, dns.TypeTXT, token)
	s := ServerAnswer{State: a.finding.state, Alias: a.alias}
	if a.down != nil {
		s.Down = a.down.name
		for _, server := range a.down.servers {
			s.Servers = append(s.Servers, server.name)
			if len(server.glue) > 0 {
				s.Glue = append(s.Glue, server.name)
			}
		}
	}
	return s, nil
}

// MostAddresses returns the greatest number of cached addresses of one name server, as glue
// and as its own.
func MostAddresses(c *Checker) (glue, own int) {
	for _, entry := range c.authority.delegations.entries {
		for _, server := range entry.value.servers {
			glue = max(glue, cap(server.glue))
		}
	}
	for _, entry := range c.authority.addresses[0].entries {
		own = max(own, cap(entry.value.addrs))
	}
	return glue, own
}

// NewCache returns a cache of numbers.
func NewCache() Cache { return Cache{newCache[int]()} }

// Cache is a cache of numbers.
type Cache struct{ c *cache[int] }

func (c Cache) Put(name string, value int, ttl time.Duration) { c.c.put(name, value, ttl) }
func (c Cache) Get(name string) (int, bool)                   { return c.c.get(name) }
func (c Cache) Forget(name string)                            { c.c.forget(name) }
func (c Cache) Len() int                                      { return len(c.c.entries) }
func (c Cache) Load(ctx context.Context, name string, fetch func() (int, time.Duration, error)) (int, error) {
	return c.c.load(ctx, name, fetch)
}

// PackQuery returns a packed query for the host.
func PackQuery(host string) ([]byte, error) {
	return query{name: newAliasPath(host).name, kind: dns.TypeTXT, edns: true}.pack(dns.Id())
}

// PackQueryAs returns the packed query in each of its forms, with id 1.
func PackQueryAs(name string, edns, padded, nonRecursive bool) ([]byte, error) {
	return query{name: name, kind: dns.TypeTXT, edns: edns, padded: padded, nonRecursive: nonRecursive}.pack(1)
}

// QuestionName and RestoreCase take bytes from the network.
var (
	QuestionName = questionName
	RestoreCase  = restoreCase
)

// Delegation returns the number of servers chosen from a referral, and the capacity allocated
// for them.
func Delegation(zone string, records []*dns.NS, additional []dns.RR) (servers, room int) {
	d := newDelegation("com.", zone, serverNames(records), additional)
	return len(d.servers), cap(d.servers)
}

const ProofTime = proofTime

var OperatorOf = operatorOf

const (
	MaxOperator  = maxOperator
	MaxCuts      = maxCuts
	OperatorTime = operatorTime
)
