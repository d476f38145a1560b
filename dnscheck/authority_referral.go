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
)

const (
	// maxServers is how many name servers of a zone are asked: few zones have more than eight, and a stranger's referral may
	// name hundreds (NXNSAttack, 2020). Of more, chance takes eight, and what takes a majority takes one of all of them.
	maxServers = 8
	// maxAddrs is how many addresses of each family are asked of one name server: a second one helps where the first is
	// down; more are the same machines again.
	maxAddrs = 2
)

// nameServer is one of a zone's, as its delegation names it.
type nameServer struct {
	name string       // with the last dot
	glue []netip.Addr // addresses that came with the referral; only for a name within the delegated zone
}

// delegation is a zone and its name servers.
type delegation struct {
	zone     string // canonical
	servers  []nameServer
	named    int    // how many servers it has, of which a majority counts; there are no more than that in servers
	set      uint64 // of the names of all of them, within one inquiry
	operator string // of all of them; empty for a registry's zone
}

// isSame reports whether both delegate the same zone to servers of the same names, within one inquiry.
func (d *delegation) isSame(as *delegation) bool {
	return as != nil && d.zone == as.zone && d.named == as.named && d.set == as.set
}

// more reports whether the zone has servers that are not queried.
func (d *delegation) more() bool { return d.named > len(d.servers) }

func (d *delegation) glueOf(name string) []netip.Addr {
	for _, server := range d.servers {
		if server.name == name {
			return server.glue
		}
	}
	return nil
}

// statement is what a name server's reply says about a name: a finding, or the alias there, or that another zone begins.
type statement struct {
	finding finding
	alias   string      // where the CNAME there leads, or a DNAME above
	down    *delegation // the zone below that the name lies in
	ttl     time.Duration
}

// definite tells whether the server has said something about the name with authority.
func (s statement) definite() bool { return s.isAlias() || s.finding.state != Unknown }

func (s statement) isAlias() bool { return s.alias != "" }

func (s statement) isYes() bool { return s.finding.state == Present }

func (s statement) isNo() bool { return s.finding.state == Absent }

func (s statement) isReferral() bool { return s.down != nil }

// isLame reports whether the server does not hold the zone.
func (s statement) isLame() bool { return s.finding.reason == ReasonLame }

// leads tells whether what was said goes on anywhere.
func (s statement) leads() bool { return s.definite() || s.down != nil }

func says(f finding) statement { return statement{finding: f} }

// readStatement tells what the reply of a server of zone says about the TXT records at name, and about the token. Records of
// any other name are not the server's to tell. The seed is the inquiry's.
func readStatement(r reply, zone, name, token string, seed maphash.Seed) statement {
	if r.rcode != dns.RcodeSuccess && r.rcode != dns.RcodeNameError {
		return says(failure("name server", r))
	}
	if tampered, is := withheld(r); is {
		return says(tampered)
	}
	if down, ttl, err := referral(r, zone, name, seed); err != nil {
		return says(unknown(ReasonLame, err))
	} else if down != nil {
		return statement{down: down, ttl: ttl}
	}
	if !r.authoritative {
		return says(unknown(ReasonLame, errors.New("the server answers without authority (AA=0): it is named as a name server of the zone and does not hold it")))
	}
	target, found, err := aliasAt(r.answer, zone, name)
	if err != nil {
		return says(misled(err))
	}
	if found { // then the response code is about the target (RFC 6604 section 3)
		return statement{alias: target}
	}
	said := says(readAt(r, name, token, false))
	said.finding.negativeTTL = 0 // who is asked directly keeps nothing back
	return said
}

// referral reads a reply that says who else is to be asked (RFC 1034 section 4.3.2): no answer, and the NS records of one
// zone, which must lie strictly below the server's own and on the way to the name: any other would go in circles, or wherever
// a stranger wants. nil without an error: it is no referral.
func referral(r reply, zone, name string, seed maphash.Seed) (*delegation, time.Duration, error) {
	if r.rcode != dns.RcodeSuccess || len(r.answer) > 0 || slices.ContainsFunc(r.authority, isSOA) {
		return nil, 0, nil
	}
	records := nsRecords(r.authority)
	if len(records) == 0 {
		return nil, 0, nil
	}
	cut := canonical(records[0].Hdr.Name)
	other := func(ns *dns.NS) bool { return canonical(ns.Hdr.Name) != cut }
	problem := ""
	switch {
	case slices.ContainsFunc(records, other):
		problem = "refers to several zones at once"
	case cut == zone:
		problem = "refers to itself"
	case !dns.IsSubDomain(zone, cut):
		problem = "refers upward or sideways, to " + shownHost(unrooted(cut))
	case !dns.IsSubDomain(cut, canonical(name)):
		problem = "refers to " + shownHost(unrooted(cut)) + ", where the name does not lie"
	}
	switch {
	case problem == "":
		ttl := longestMemory
		for _, ns := range records {
			ttl = min(ttl, seconds(ns.Hdr.Ttl))
		}
		return delegationOf(cut, serverNames(records), r.additional, seed), ttl, nil
	case r.authoritative: // it says "nothing there", and names servers beside it
		return nil, 0, nil
	}
	return nil, 0, fmt.Errorf("the server is named as one of %s, and %s", shownHost(unrooted(zone)), problem)
}

func isSOA(rr dns.RR) bool { _, ok := rr.(*dns.SOA); return ok }

func nsRecords(section []dns.RR) []*dns.NS {
	var found []*dns.NS
	for _, record := range section {
		if ns, ok := record.(*dns.NS); ok && ns.Hdr.Class == dns.ClassINET {
			found = append(found, ns)
		}
	}
	return found
}

// delegationOf takes at most maxServers of the servers, and nothing else of a reply that may name thousands. Of the same names
// it takes the same within one inquiry, by its seed, so that the referrals of several servers can be compared.
func delegationOf(zone string, names []string, additional []dns.RR, seed maphash.Seed) *delegation {
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(maphash.String(seed, a), maphash.String(seed, b)), cmp.Compare(a, b))
	})
	d := &delegation{zone: zone, named: len(names), set: maphash.String(seed, strings.Join(names, "\x00"))}
	most := maxServers
	if isRegistrys(zone) {
		most = registryServers
		d.named = min(d.named, most)
	} else {
		d.operator = operatorOf(names)
	}
	d.servers = withGlue(zone, names[:min(len(names), most)], additional)
	return d
}

// serverNames gives the servers that the records name, each once.
func serverNames(records []*dns.NS) []string {
	var names []string
	named := make(map[string]bool)
	for _, ns := range records {
		name := canonical(ns.Ns)
		if name == "." || named[name] {
			continue
		}
		named[name] = true
		names = append(names, name)
	}
	return names
}

// withGlue gives the servers of these names with the addresses that came along for those in the zone itself: others are not
// the referring server's to tell. Every record is inspected for every name: they must be few.
func withGlue(zone string, names []string, additional []dns.RR) []nameServer {
	servers := make([]nameServer, 0, len(names))
	for _, name := range names {
		server := nameServer{name: name}
		if dns.IsSubDomain(zone, name) {
			server.glue = addressesAt(additional, name)
		}
		servers = append(servers, server)
	}
	return servers
}

// addressesAt gives the addresses that a section has of a name.
func addressesAt(section []dns.RR, name string) []netip.Addr {
	var found []netip.Addr
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

func addressIn(record dns.RR) (netip.Addr, bool) {
	var octets []byte
	switch record := record.(type) {
	case *dns.A:
		octets = record.A.To4()
	case *dns.AAAA:
		octets = record.AAAA.To16()
	}
	addr, ok := netip.AddrFromSlice(octets)
	return addr.Unmap(), ok
}
