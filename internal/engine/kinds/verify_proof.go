package kinds

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"orgops/apiclient"
	"orgops/dnscheck"
)

// Compared is a discovery domain's record, as far as a proof depends on it. A proof is stored
// with the row of each verified domain as long as its run, so it is packed more tightly than
// a check: by short names, and without members that are the same in nearly all.
type Compared struct {
	OrganizationID    string `json:"organization_id"`
	DiscoveryDomainID string `json:"discovery_domain_id"`
	Domain            string `json:"domain,omitempty"` // empty: no record was read, since the credentials may not
	Host              string `json:"verification_host"`
	TXT               string `json:"verification_txt,omitempty"`        // empty: it is longer than maxPlainToken
	TXTSHA256         string `json:"verification_txt_sha256,omitempty"` // of a longer one, in hexadecimal
}

// newCompared returns the record without a long token, of which it has the hash.
func newCompared(organization string, d apiclient.DiscoveryDomain) Compared {
	c := Compared{organization, d.ID, d.Domain, d.VerificationHost, d.VerificationTXT, ""}
	if len(c.TXT) > maxPlainToken {
		c.TXT, c.TXTSHA256 = "", fmt.Sprintf("%x", sha256.Sum256([]byte(d.VerificationTXT)))
	}
	return c
}

// is reports whether the record has this domain, host and token. If no record was read
// before, the domain may be any.
func (c Compared) is(d apiclient.DiscoveryDomain) bool {
	other := newCompared(c.OrganizationID, d)
	return (c.Domain == "" || sameName(c.Domain, d.Domain)) && sameName(c.Host, d.VerificationHost) &&
		c.TXT == other.TXT && c.TXTSHA256 == other.TXTSHA256
}

// sameName compares names as DNS does (RFC 4343), apart from a trailing dot.
func sameName(a, b string) bool {
	return strings.EqualFold(strings.TrimSuffix(a, "."), strings.TrimSuffix(b, "."))
}

const (
	// maxProof bounds a proof, in bytes. Usual ones take some 200.
	maxProof = 1 << 10
	// maxPlainToken is the length of the longest token that is stored itself. Those of
	// the service have 32 bytes.
	maxPlainToken = 128
)

// proofPacking compresses a proof. Its dictionary has text of nearly every proof at its
// end, and before that resolvers and names of name servers that many use.
var proofPacking = newPacking(2, `tls://208.67.222.222:853#dns.opendns.comtls://149.112.112.112:853#dns.quad9.nettls://1.0.0.1:853#one.one.one.onetls://8.8.4.4:853#dns.google`+
	`8.8.4.4:531.0.0.1:539.9.9.9:538.8.8.8:531.1.1.1:53timeoutabsentunknownservfail"s":"r":"c":"e":"x":"g":["p":"https"p":"udp"p":"tcp"m":".domaincontrol.com.awsdns-.co.uk.org.net`+
	`.ui-dns.org.ui-dns.dens1.dreamhost.comns1.digitalocean.comns-cloud-a1.googledomains.comns1-01.azure-dns.com.gandi.netns1.bluehost.comdns1.p01.nsone.net.ovh.net`+
	`dns1.registrar-servers.com.ns.cloudflare.com[2606:4700:50::adf5:[2a06:98c1:50::ac40:[2803:f800:50::6ca2:]108.162.192.172.64.32.173.245.58.205.251.192.]\ndns2.www.dns.com 192.0.2.1\nns2.{"a":"t`+
	`","b":"authority","o":"org_","d":"ord_","z":".com","h":"_ss-verification.org_","j":"==","q":2,"w":3,"y":[""],"v":"dns1. 1\nns-\nns1. 1`+
	`\nCloudflare\ttls://1.1.1.1:853#one.one.one.one \nGoogle\ttls://8.8.8.8:853#dns.google \nQuad9\ttls://9.9.9.9:853#dns.quad9.net "}`)

// proof is evidence in the form in which it is compressed. A member that is left out has the
// value named with it.
type proof struct {
	At           string `json:"a"`           // Unix seconds in base 36
	Basis        string `json:"b,omitempty"` // authority_and_resolvers
	Organization string `json:"o"`
	ID           string `json:"d"`
	Domain       string `json:"z,omitempty"`
	Host         string `json:"h"`
	TXT          string `json:"t,omitempty"`
	Hex          []byte `json:"j,omitempty"` // in place of TXT: see packToken
	TXTSHA256    string `json:"x,omitempty"`
	ThinSince    string `json:"s,omitempty"` // as At; empty: it is no thin proof
	ThinChecks   int    `json:"n,omitempty"`
	Quorum       int    `json:"q,omitempty"`
	Resolvers    int    `json:"w,omitempty"`
	Note         string `json:"g,omitempty"`
	State        string `json:"k,omitempty"` // present
	Reason       string `json:"r,omitempty"` // found
	// Aliases are those of each of Found.
	Aliases []string `json:"y,omitempty"`
	// Found has a line for each voter that found the token and has no other unusual member:
	// for a resolver its operator and a tab; name, a blank, the time taken in ms, and for a
	// name server a blank and its address.
	Found  string  `json:"v,omitempty"`
	Others []voter `json:"u,omitempty"`
	More   int     `json:"m,omitempty"`
}

// voter is an observation that is not among those of proof.Found.
type voter struct {
	Name          string   `json:"n"`
	Address       string   `json:"i,omitempty"` // of a name server; without its port if that is 53
	Authority     bool     `json:"u,omitempty"` // where there is no address
	Operator      string   `json:"w,omitempty"` // of a resolver
	Perspective   string   `json:"q,omitempty"` // of a resolver; usual: what its name has after an @, or default
	Transport     string   `json:"p,omitempty"` // udp of a name server, tls of a resolver
	State         string   `json:"s,omitempty"` // present
	Reason        string   `json:"r,omitempty"` // found
	RCode         string   `json:"c,omitempty"` // NOERROR if present, else none
	Aliases       []string `json:"y,omitempty"`
	EDE           string   `json:"e,omitempty"`
	Authenticated bool     `json:"k,omitempty"`
	Milliseconds  int      `json:"l"`
	Err           string   `json:"f,omitempty"`
	// Values are those that were found instead of the token.
	Values     []string `json:"v,omitempty"`
	MoreValues int      `json:"m,omitempty"`
}

// packProof compresses the verdict by which the record is verified, and returns it also as
// [ReadEvidence] reads it. thin is nil unless the proof is one.
func packProof(v dnscheck.Verdict, c Compared, at time.Time, thin *ThinProof) (packed []byte, read Evidence, err error) {
	e := v.Evidence()
	var p proof
	packed, err = proofPacking.packCut(maxProof, func(level int) any {
		p = newProof(e.Cut(level))
		p.At, p.Organization, p.ID, p.Domain, p.Host, p.TXTSHA256 = packTime(at), c.OrganizationID, c.DiscoveryDomainID, c.Domain, c.Host, c.TXTSHA256
		p.TXT, p.Hex = packToken(c.TXT)
		if thin != nil {
			p.ThinSince, p.ThinChecks = packTime(thin.Since), thin.Checks
		}
		return p
	})
	return packed, p.evidence(), err
}

const base = 36

func packTime(at time.Time) string { return strconv.FormatInt(at.Unix(), base) }

func unpackTime(text string) time.Time {
	at, _ := strconv.ParseInt(text, base, 64) // as it was formatted
	return time.Unix(at, 0).UTC()
}

// packToken returns the bytes of a token in lower-case hexadecimal, as the service writes
// it, and any other token itself.
func packToken(token string) (text string, raw []byte) {
	raw, err := hex.DecodeString(token)
	if err != nil || hex.EncodeToString(raw) != token {
		return token, nil
	}
	return "", raw
}

// unpackToken is the inverse of packToken.
func unpackToken(text string, raw []byte) string { return cmp.Or(text, hex.EncodeToString(raw)) }

// unusual returns the value, or "" if it is the usual one.
func unusual(value, of string) string {
	if value == of {
		return ""
	}
	return value
}

const (
	usualPort  = ":53"
	usualState = "present"
	usualRCode = "NOERROR"
)

func usualTransport(authority bool) string {
	if authority {
		return "udp"
	}
	return "tls"
}

func usualRCodeOf(state string) string {
	if state == usualState {
		return usualRCode
	}
	return ""
}

func newProof(e dnscheck.Evidence) proof {
	p := proof{State: unusual(e.State, usualState), Reason: unusual(e.Reason, string(dnscheck.ReasonFound)), Basis: unusual(e.Basis, string(dnscheck.ByBoth)), Quorum: e.Quorum, Resolvers: e.Resolvers, Note: e.Note, More: e.More}
	var found []string
	for _, o := range e.Said {
		v := newVoter(o)
		if len(found) == 0 {
			p.Aliases = v.Aliases
		}
		plain := voter{Name: v.Name, Address: v.Address, Operator: v.Operator, Milliseconds: v.Milliseconds, Aliases: p.Aliases}
		if !reflect.DeepEqual(v, plain) || strings.ContainsAny(v.Name+v.Address, " \t\n") {
			p.Others = append(p.Others, v)
			continue
		}
		found = append(found, v.line())
	}
	p.Found = strings.Join(found, "\n")
	return p
}

// line returns the line of a voter in proof.Found.
func (v voter) line() string {
	line := strings.TrimSpace(fmt.Sprintf("%s %d %s", v.Name, v.Milliseconds, v.Address))
	if v.Operator != "" {
		return v.Operator + "\t" + line
	}
	return line
}

// voterOf is the inverse of line. A malformed line is read as far as possible.
func voterOf(line string) (v voter) {
	if operator, rest, found := strings.Cut(line, "\t"); found {
		v.Operator, line = operator, rest
	}
	_, _ = fmt.Sscan(line, &v.Name, &v.Milliseconds, &v.Address)
	return v
}

func usualPerspective(authority bool, name string) string {
	if authority {
		return ""
	}
	_, perspective, _ := strings.Cut(name, "@")
	return cmp.Or(perspective, dnscheck.DefaultPerspective)
}

func newVoter(o dnscheck.ObservationRecord) voter {
	v := voter{
		Name: o.Asked, Address: strings.TrimSuffix(o.Address, usualPort), Authority: o.Authority && o.Address == "",
		Operator: o.Operator, Perspective: unusual(o.Perspective, usualPerspective(o.Authority, o.Asked)),
		Transport: unusual(o.Transport, usualTransport(o.Authority)), State: unusual(o.State, usualState), Reason: unusual(o.Reason, string(dnscheck.ReasonFound)),
		RCode: unusual(o.RCode, usualRCodeOf(o.State)), Aliases: o.Aliases, EDE: o.EDE, Authenticated: o.Authenticated, Milliseconds: int(o.Milliseconds + 0.5), Err: o.Err,
	}
	if v.State != "" {
		v.Values, v.MoreValues = o.Values, o.MoreValues
	}
	return v
}

func (p proof) evidence() Evidence {
	e := Evidence{
		Evidence: dnscheck.Evidence{
			At: unpackTime(p.At), State: cmp.Or(p.State, usualState), Reason: cmp.Or(p.Reason, string(dnscheck.ReasonFound)), Basis: cmp.Or(p.Basis, string(dnscheck.ByBoth)),
			Note: p.Note, Quorum: p.Quorum, Resolvers: p.Resolvers, Said: []dnscheck.ObservationRecord{}, More: p.More,
		},
		Compared: &Compared{p.Organization, p.ID, p.Domain, p.Host, unpackToken(p.TXT, p.Hex), p.TXTSHA256},
	}
	if p.ThinSince != "" {
		e.ThinProof = &ThinProof{Since: unpackTime(p.ThinSince), Checks: p.ThinChecks}
	}
	for line := range strings.Lines(p.Found) {
		v := voterOf(line)
		v.Aliases = p.Aliases
		e.Said = append(e.Said, v.observation())
	}
	for _, v := range p.Others {
		e.Said = append(e.Said, v.observation())
	}
	return e
}

func (v voter) observation() dnscheck.ObservationRecord {
	authority := v.Authority || v.Address != ""
	state := cmp.Or(v.State, usualState)
	address := v.Address
	if address != "" && !strings.Contains(address[strings.LastIndex(address, "]")+1:], ":") {
		address += usualPort
	}
	return dnscheck.ObservationRecord{
		Asked: v.Name, Address: address, Authority: authority,
		Operator: v.Operator, Perspective: cmp.Or(v.Perspective, usualPerspective(authority, v.Name)), Transport: cmp.Or(v.Transport, usualTransport(authority)), State: state,
		Reason: cmp.Or(v.Reason, string(dnscheck.ReasonFound)), RCode: cmp.Or(v.RCode, usualRCodeOf(state)), Aliases: v.Aliases, EDE: v.EDE,
		Authenticated: v.Authenticated, Milliseconds: float64(v.Milliseconds), Err: v.Err,
		Values: v.Values, MoreValues: v.MoreValues,
	}
}
