package dnscheck

import (
	"context"
	"hash/maphash"
	"net"
	"time"

	"github.com/miekg/dns"
)

// What tests outside the package may see of its inside.

var (
	Unescape   = unescape
	MaxAliases = maxAliases
)

const (
	MaxQueries    = maxQueries
	MaxLookups    = maxLookups
	MaxShown      = maxShown
	AuthorityTime = authorityTime
	DiagnosisTime = diagnosisTime
	LookupTime    = lookupTime
	Grace         = grace
	ClosedFor     = closedFor
	MaxServers    = maxServers
	MaxAddrs      = maxAddrs
	MaxRemembered = maxRemembered
	MaxRecords    = maxRecords
)

// DialFunc stands in for the network.
type DialFunc func(ctx context.Context, network, address string) (net.Conn, error)

func (f DialFunc) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	return f(ctx, network, address)
}

// NewOver makes a Checker that dials through d.
func NewOver(c Config, d DialFunc) (*Checker, error) {
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	return assemble(c, newExchange(d, c.Timeout))
}

// ReadReply takes the way of a reply that comes in for (id, host): what is parsed of it, and what that says of the token.
func ReadReply(raw []byte, id uint16, host, token string) (sections [3]int, state State, reason Reason, values []string, err error) {
	path := newTrail(host)
	r, err := parseReply(raw, id, path.at, dns.TypeTXT)
	if err != nil || r.truncated {
		return sections, Unknown, "", nil, err
	}
	found := path.read(r, token)
	sections = [3]int{len(r.answer), len(r.authority), len(r.additional)}
	return sections, found.state, found.reason, found.values, nil
}

// Statement is what the reply of a zone's name server says.
type Statement struct {
	State   State
	Alias   string
	Down    string   // the zone below that it refers to
	Servers []string // its name servers
	Glue    []string // those of them that came with addresses
}

// ReadStatement takes the way of a reply that comes in from a name server of zone.
func ReadStatement(raw []byte, id uint16, zone, host, token string) (Statement, error) {
	name := newTrail(host).at
	r, err := parseReply(raw, id, name, dns.TypeTXT)
	if err != nil || r.truncated {
		return Statement{}, err
	}
	said := readStatement(r, zone, name, token, maphash.MakeSeed())
	s := Statement{State: said.finding.state, Alias: said.alias}
	if said.down != nil {
		s.Down = said.down.zone
		for _, server := range said.down.servers {
			s.Servers = append(s.Servers, server.name)
			if len(server.glue) > 0 {
				s.Glue = append(s.Glue, server.name)
			}
		}
	}
	return s, nil
}

// MostAddresses returns the greatest number of addresses that the Checker's caches have of a name server, as glue of its zone
// and as its own.
func MostAddresses(c *Checker) (glue, own int) {
	for _, remembered := range c.authority.cuts.held {
		for _, server := range remembered.value.servers {
			glue = max(glue, cap(server.glue))
		}
	}
	for _, remembered := range c.authority.hosts.held {
		own = max(own, cap(remembered.value))
	}
	return glue, own
}

// NewMemory is a cache, with the bound that it has.
func NewMemory() Memory { return Memory{newMemory[int]()} }

// Memory is a cache of numbers.
type Memory struct{ m *memory[int] }

func (m Memory) Put(name string, value int, ttl time.Duration) { m.m.put(name, value, ttl) }
func (m Memory) Get(name string) (int, bool)                   { return m.m.get(name) }
func (m Memory) Forget(name string)                            { m.m.forget(name) }
func (m Memory) Len() int                                      { return len(m.m.held) }
func (m Memory) Find(ctx context.Context, name string, look func() (int, time.Duration, error)) (int, error) {
	return m.m.find(ctx, name, look)
}

// PackQuery writes a query for the host.
func PackQuery(host string) ([]byte, error) {
	return query{name: newTrail(host).at, kind: dns.TypeTXT, edns: true}.pack(randomID())
}

// PackQueryAs writes the same query in all its forms, with id 1.
func PackQueryAs(name string, edns, padded, straight bool) ([]byte, error) {
	return query{name: name, kind: dns.TypeTXT, edns: edns, padded: padded, straight: straight}.pack(1)
}

// QuestionName and RestoreLetters take bytes from the network.
var (
	QuestionName   = questionName
	RestoreLetters = restoreLetters
)

// Delegation tells how many servers are taken of a referral, and how many the memory has room for.
func Delegation(zone string, records []*dns.NS, additional []dns.RR) (servers, room int) {
	d := delegationOf(zone, serverNames(records), additional, maphash.MakeSeed())
	return len(d.servers), cap(d.servers)
}

// Said is what one vantage point says to a disproof; RCode: the answer was read.
type Said struct {
	State  State
	Reason Reason
	RCode  string
}

// Disproved is what a disproof comes to by what the resolvers have said and, where they count, the name servers together.
func Disproved(quorum int, resolvers []Said, byServers bool, servers Said) Verdict {
	count := tally{quorum: quorum, pending: len(resolvers)}
	var observations []Observation
	for _, s := range resolvers {
		o := Observation{State: s.State, Reason: s.Reason, RCode: s.RCode}
		count.add(o)
		observations = append(observations, o)
	}
	state, _ := count.heardOut()
	d := disproof{resolvers: verdictOf(state, "", observations), byServers: byServers}
	if byServers {
		d.servers = word{Verdict: Verdict{State: servers.State, Reason: servers.Reason}}
	}
	return d.verdict()
}

const DisproofTime = disproofTime

// OperatorOf is the key of who runs name servers of these names.
var OperatorOf = operatorOf

const (
	MaxOperator  = maxOperator
	MaxCuts      = maxCuts
	OperatorTime = operatorTime
)
