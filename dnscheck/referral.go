package dnscheck

import (
	"cmp"
	"errors"
	"fmt"
	"hash/maphash"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"

	"orgops/dnscheck/dnsname"
)

const (
	// maxServers is how many name servers of a zone are queried: a majority of 31. Few zones have
	// more than eight, and a foreign referral may name hundreds (NXNSAttack, 2020). Of more, as
	// many are chosen at random; a majority is still one of all.
	maxServers = 16
	// maxAddrs is how many addresses of each family are queried of one name server: a second
	// one helps if the first is down.
	maxAddrs = 2
)

// serverSeed makes the choice of servers unpredictable.
var serverSeed = maphash.MakeSeed()

type nameServer struct {
	name string       // with the final dot
	glue []netip.Addr // addresses from the referral, of a name within the delegated zone
	// spare are the addresses that a registry gave of a name in another zone below it. They may be
	// stale, and count only if the address cannot be looked up.
	spare []netip.Addr
}

type delegation struct {
	name     string // canonical
	servers  []nameServer
	named    int    // the number of its servers, for a majority; servers may have fewer
	set      uint64 // a hash of all their names
	operator string // of its servers; empty for a registry
	ttl      time.Duration
	none     error // of a top-level domain: why it has no servers
}

// isSame reports whether both delegate the same zone to servers of the same names.
func (d *delegation) isSame(other *delegation) bool {
	return other != nil && d.name == other.name && d.named == other.named && d.set == other.set
}

// hasAddress reports whether an address came with the delegation for a server.
func (d *delegation) hasAddress(name string) bool {
	return d != nil && slices.ContainsFunc(d.servers, func(s nameServer) bool {
		return s.name == name && len(s.glue)+len(s.spare) > 0
	})
}

func (d *delegation) isCut() bool { return d.named > len(d.servers) }

func (d *delegation) glueOf(name string) []netip.Addr {
	for _, server := range d.servers {
		if server.name == name {
			return server.glue
		}
	}
	return nil
}

// serverAnswer is a name server's answer for a name: a finding, an alias, or a referral.
type serverAnswer struct {
	finding     finding
	alias       string      // the target of the CNAME there, or of a DNAME above
	down        *delegation // the zone below that contains the name
	addrs       []netip.Addr
	ttl         time.Duration // of the addresses
	pending     bool          // a denial over UDP that is not confirmed yet
	last        bool          // no answer, but the end of those of a server
	server      int           // index in the delegation
	observation Observation   // without an address if the server has none that can be queried
}

// definite reports whether the answer is authoritative for the name.
func (a serverAnswer) definite() bool { return a.isAlias() || a.finding.state != Unknown }

func (a serverAnswer) isAlias() bool    { return a.alias != "" }
func (a serverAnswer) hasToken() bool   { return a.finding.state == Present }
func (a serverAnswer) denies() bool     { return a.finding.state == Absent }
func (a serverAnswer) isReferral() bool { return a.down != nil }

func (a serverAnswer) isUseful() bool { return a.definite() || a.isReferral() }

func (a serverAnswer) replied() bool {
	return a.observation.Transport == transportUDP && a.observation.RCode != ""
}

// unconfirmed reports whether a reply over UDP has to be confirmed: a denial, or an unusable one.
func (a serverAnswer) unconfirmed() bool { return a.replied() && (a.denies() || !a.isUseful()) }

func withFinding(f finding) serverAnswer { return serverAnswer{finding: f} }

// readServerAnswer reads the reply of a server of zone about the records of a kind at name: TXT,
// A and AAAA, or NS. A server has no authority over records of other names. The NS records of a
// zone below, which it holds as well, are the referral of a server that does not hold that zone.
func readServerAnswer(r reply, zone, name string, kind uint16, token string) serverAnswer {
	// The server does not serve the zone, or refers to one below.
	if !r.isAnswer() {
		return withFinding(failure("name server", r))
	}
	if f, is := notZones(r); is {
		return withFinding(f)
	}
	if down, err := referral(r, zone, name); err != nil {
		return withFinding(unknown(ReasonLame, err))
	} else if down != nil {
		return serverAnswer{down: down}
	}
	if !r.authoritative {
		return withFinding(unknown(ReasonLame,
			errors.New(
				"the server answers without authority (AA=0): it is named as a name server of the zone and does not hold it")))
	}

	// The answer is an alias, name servers, addresses, or the text that is looked for.
	target, err := aliasAt(r.answer, zone, name)
	if err != nil {
		return withFinding(aliasFailure(err))
	}
	if target != "" { // then the response code is the target's (RFC 6604 section 3)
		return serverAnswer{alias: target}
	}
	if kind == dns.TypeNS {
		records := slices.DeleteFunc(nsRecords(r.answer), func(ns *dns.NS) bool { return !dnsname.Same(ns.Hdr.Name, name) })
		if len(records) > 0 && r.rcode == dns.RcodeSuccess {
			return serverAnswer{down: delegationBy(zone, records, r.additional)}
		}
	}
	if addrs := addressesAt(r.answer, name); kind != dns.TypeTXT && len(addrs) > 0 && r.rcode == dns.RcodeSuccess {
		a := serverAnswer{finding: finding{state: Present, reason: ReasonFound}, ttl: longestTTL}
		for _, record := range r.answer {
			a.ttl = min(a.ttl, seconds(record.Header().Ttl))
		}
		slices.SortFunc(addrs, netip.Addr.Compare) // so that servers which rotate them give the same first ones
		a.addrs = firstAddrs(addrs)
		return a
	}
	f := findAt(r, name, token, false)
	f.negativeTTL = 0 // a name server caches nothing
	return serverAnswer{finding: f, ttl: longestTTL}
}

// referral reads a referral (RFC 1034 section 4.3.2): a reply without an answer, with the NS
// records of one zone. That zone must be strictly below the server's own and contain the name.
// nil without an error: the reply is no referral.
func referral(r reply, zone, name string) (*delegation, error) {
	records := nsRecords(r.authority)
	if r.rcode != dns.RcodeSuccess || len(r.answer) > 0 || len(recordsOf[*dns.SOA](r.authority)) > 0 || len(records) == 0 {
		return nil, nil
	}
	cut := dnsname.Canonical(records[0].Hdr.Name)
	other := func(ns *dns.NS) bool { return dnsname.Canonical(ns.Hdr.Name) != cut }
	problem := ""
	switch {
	case slices.ContainsFunc(records, other):
		problem = "refers to several zones at once"
	case cut == zone:
		problem = "refers to itself"
	case !dns.IsSubDomain(zone, cut):
		problem = "refers upward or sideways, to " + dnsname.Shown(dnsname.Unrooted(cut))
	case !dns.IsSubDomain(cut, dnsname.Canonical(name)):
		problem = "refers to " + dnsname.Shown(dnsname.Unrooted(cut)) + ", where the name does not lie"
	}
	switch {
	case problem == "":
		return delegationBy(zone, records, r.additional), nil
	case r.authoritative: // an empty answer with the zone's name servers
		return nil, nil
	}
	return nil, fmt.Errorf("the server is named as one of %s, and %s", dnsname.Shown(dnsname.Unrooted(zone)), problem)
}

// delegationBy returns the delegation in the NS records of one zone, from a server of the zone
// above.
func delegationBy(above string, records []*dns.NS, additional []dns.RR) *delegation {
	d := newDelegation(above, dnsname.Canonical(records[0].Hdr.Name), serverNames(records), additional)
	for _, ns := range records {
		d.ttl = min(d.ttl, seconds(ns.Hdr.Ttl))
	}
	return d
}

func nsRecords(section []dns.RR) []*dns.NS {
	return slices.DeleteFunc(recordsOf[*dns.NS](section), func(ns *dns.NS) bool { return ns.Hdr.Class != dns.ClassINET })
}

// serverNames returns the servers in the records, each once.
func serverNames(records []*dns.NS) (names []string) {
	for _, ns := range records {
		if name := dnsname.Canonical(ns.Ns); name != "." {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// newDelegation chooses at most maxServers of the servers, and retains nothing else of a reply
// that may name thousands. Of the same names it chooses the same, so that the referrals of
// several servers can be compared.
func newDelegation(above, zone string, names []string, additional []dns.RR) *delegation {
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(maphash.String(serverSeed, a), maphash.String(serverSeed, b)), cmp.Compare(a, b))
	})
	d := &delegation{name: zone, named: len(names), set: maphash.String(serverSeed, strings.Join(names, "\x00")),
		ttl: longestTTL}
	if !isRegistry(zone) {
		d.operator = operatorOf(names)
	}
	d.servers = withGlue(above, zone, names[:min(len(names), maxServers)], additional)
	return d
}

// withGlue returns the servers of these names, with the addresses of those in the zone itself, and
// of those below the registry that refers to it: a server has no authority over others. The names
// must be few, since each record is compared with each.
func withGlue(above, zone string, names []string, additional []dns.RR) []nameServer {
	servers := make([]nameServer, len(names))
	for i, name := range names {
		servers[i].name = name
		switch {
		case dns.IsSubDomain(zone, name):
			servers[i].glue = addressesAt(additional, name)
		case isRegistry(above) && dns.IsSubDomain(above, name):
			servers[i].spare = addressesAt(additional, name)
		}
	}
	return servers
}

func addressesAt(section []dns.RR, name string) (found []netip.Addr) {
	for _, record := range section {
		if !isAt(record, name) {
			continue
		}
		if addr, ok := addressIn(record); ok && !slices.Contains(found, addr) {
			found = append(found, addr)
		}
	}
	return found
}

// firstAddrs returns a copy of the first maxAddrs addresses of each family, of the public ones
// and of the others. A foreign name server may have a thousand, which would all be queried,
// and held by the caches.
func firstAddrs(found []netip.Addr) (first []netip.Addr) {
	type sort struct{ public, six bool }
	number := make(map[sort]int)
	for _, addr := range found {
		of := sort{IsPublic(addr), addr.Is6()}
		if number[of]++; number[of] <= maxAddrs {
			first = append(first, addr)
		}
	}
	return first
}
