package kinds

import (
	"bytes"
	"cmp"
	"compress/flate"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"orgops/apiclient"
	"orgops/dnscheck"
	"orgops/internal/engine"
)

// Evidence is a verdict that is stored with a row: why it waits or has expired, by the last
// check that did not find the token, or why its domain was verified, by the proof. It is
// JSON, compressed, since a million rows may have one. Strangers choose the answers of
// servers, so it is cut until it fits.
type Evidence struct {
	dnscheck.Evidence

	// Compared is the record that was verified by the proof; nil for a check.
	Compared *Compared `json:"compared,omitempty"`
}

// Compared is a discovery domain's record, as far as a proof depends on it.
type Compared struct {
	OrganizationID    string `json:"organization_id"`
	DiscoveryDomainID string `json:"discovery_domain_id"`
	Domain            string `json:"domain"`
	Host              string `json:"verification_host"`
	TXT               string `json:"verification_txt,omitempty"`        // empty: it is longer than maxPlainToken
	TXTSHA256         string `json:"verification_txt_sha256,omitempty"` // of a longer one, in hexadecimal
}

const (
	// maxVerdict bounds the evidence of a check, and the memo of a row, in bytes. A usual
	// verdict, four name servers that know no such name, takes some 150.
	maxVerdict = engine.MaxMemo
	// maxProof bounds a proof, in bytes. Usual ones take some 200.
	maxProof = 1 << 10
	// maxPlainToken is the length of the longest token that is stored itself. Those of
	// the service have 32 bytes.
	maxPlainToken = 128
	// maxUnpacked bounds evidence that is decompressed. A verdict of 16 observations is 16 KB.
	maxUnpacked = 256 << 10
	// found is the state of an observation that has the token.
	found = "present"
)

// newCompared returns the record without a long token, of which it has the hash.
func newCompared(organization string, d apiclient.DiscoveryDomain) *Compared {
	c := &Compared{organization, d.ID, d.Domain, d.VerificationHost, d.VerificationTXT, ""}
	if len(c.TXT) > maxPlainToken {
		c.TXT, c.TXTSHA256 = "", fmt.Sprintf("%x", sha256.Sum256([]byte(d.VerificationTXT)))
	}
	return c
}

// is reports whether the record has this domain, host and token.
func (c *Compared) is(d apiclient.DiscoveryDomain) bool {
	other := newCompared(c.OrganizationID, d)
	return sameName(c.Domain, d.Domain) && sameName(c.Host, d.VerificationHost) &&
		c.TXT == other.TXT && c.TXTSHA256 == other.TXTSHA256
}

// sameName compares names as DNS does (RFC 4343), apart from a trailing dot.
func sameName(a, b string) bool {
	return strings.EqualFold(strings.TrimSuffix(a, "."), strings.TrimSuffix(b, "."))
}

// checkEvidence returns the evidence of a check.
func checkEvidence(v dnscheck.Verdict, at time.Time) Evidence {
	e := v.Evidence()
	e.At = at.UTC().Truncate(time.Second)
	return Evidence{Evidence: e}
}

// proofEvidence returns the evidence of the verdict by which a record is verified.
func proofEvidence(v dnscheck.Verdict, c *Compared, at time.Time) Evidence {
	e := checkEvidence(v, at)
	e.Compared = c
	for i := range e.Said {
		o := &e.Said[i]
		o.Milliseconds = math.Round(o.Milliseconds)
		if o.State == found {
			o.Values, o.MoreValues = nil, 0
		}
	}
	return e
}

// seenBy returns a property of each resolver that found the token, each once and in order.
func (e Evidence) seenBy(property func(dnscheck.ObservationRecord) string) []string {
	var all []string
	for _, o := range e.Said {
		if !o.Authority && o.State == found {
			all = append(all, property(o))
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// packCheck compresses the evidence of a check, without its sentence.
func packCheck(e Evidence) ([]byte, error) {
	return checkPacking.packCut(maxVerdict, func(level int) any { return Evidence{Evidence: e.Cut(level)} })
}

// packedProof is the form in which a proof is compressed.
type packedProof struct {
	Evidence

	Hex []byte `json:"hex,omitempty"` // instead of Compared.TXT: see packToken
}

// packProof compresses a proof, without its sentence.
func packProof(e Evidence) ([]byte, error) {
	record := *e.Compared
	p := packedProof{Evidence: Evidence{Compared: &record}}
	record.TXT, p.Hex = packToken(record.TXT)
	return proofPacking.packCut(maxProof, func(level int) any {
		p.Evidence.Evidence = e.Cut(level)
		return p
	})
}

// ReadEvidence reads the evidence of a settled row's result: of a check if the row has
// expired, of the proof if its domain was verified. It has no sentence.
func ReadEvidence(packed []byte) (e Evidence, err error) {
	if len(packed) == 0 || packed[0] != proofPacking.version {
		return e, checkPacking.unpack(packed, &e)
	}
	var p packedProof
	err = proofPacking.unpack(packed, &p)
	if p.Compared != nil {
		p.Compared.TXT = unpackToken(p.Compared.TXT, p.Hex)
	}
	return p.Evidence, err
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

// packing compresses JSON with a dictionary, behind a byte that names the dictionary.
type packing struct {
	version    byte
	dictionary []byte
	writers    sync.Pool // a new writer clears a megabyte
}

func newPacking(version byte, dictionary string) *packing {
	p := &packing{version: version, dictionary: []byte(dictionary)}
	p.writers.New = func() any {
		w, err := flate.NewWriterDict(nil, flate.DefaultCompression, p.dictionary)
		if err != nil {
			panic(err) // the level is valid
		}
		return w
	}
	return p
}

// packCut compresses the value at the lowest level of cuts at which it fits; if none does,
// at the last.
func (p *packing) packCut(most int, value func(level int) any) (packed []byte, err error) {
	for level := 1; level <= dnscheck.Cuts; level++ {
		if packed, err = p.pack(value(level)); err != nil || len(packed) <= most {
			break
		}
	}
	return packed, err
}

func (p *packing) pack(v any) ([]byte, error) {
	packed := bytes.NewBuffer([]byte{p.version})
	text, err := json.Marshal(v)
	if err == nil {
		w := p.writers.Get().(*flate.Writer)
		defer p.writers.Put(w)
		w.Reset(packed)
		_, err = w.Write(text)
		err = errors.Join(err, w.Close())
	}
	if err != nil {
		return nil, fmt.Errorf("pack evidence: %w", err)
	}
	return packed.Bytes(), nil
}

func (p *packing) unpack(packed []byte, v any) error {
	if len(packed) == 0 || packed[0] != p.version {
		return errors.New("read evidence: unknown version: use a newer orgops")
	}
	text, err := io.ReadAll(io.LimitReader(flate.NewReaderDict(bytes.NewReader(packed[1:]), p.dictionary), maxUnpacked))
	if err == nil {
		err = json.Unmarshal(text, v)
	}
	if err != nil {
		return fmt.Errorf("read evidence: %w", err)
	}
	return nil
}

// The packings. Each dictionary has text of nearly every document, the most frequent last.
// Another dictionary needs another version.
var (
	checkPacking = newPacking(1, checkDictionary)
	statePacking = newPacking(3, stateDictionary)
	proofPacking = newPacking(4, proofDictionary)
)

const checkDictionary = `"sentence":"basis":"authority_and_resolvers","resolvers_lag","name_servers_disagree","timeout","unreachable","unknown","reason":"servfail","rcode":"SERVFAIL"` +
	`"values":["\"google-site-verification=","\"v=spf1 include:_spf.google.com ~all\""],"more_values":"aliases":["extended_error":"more_observations":` +
	`,"authenticated":true,"negative_ttl":"error":"lookup: i/o timeout"},{"asked":"1.1.1.1:53"8.8.8.8:539.9.9.9:53` +
	`{"at":"2026-01-01T00:00:00Z","state":"absent","reason":"other_value","basis":"resolvers","quorum":2,"resolvers":3,"negative_ttl":300,"observations":[` +
	`{"asked":"ns1.example.com","name_server":false,"transport":"udp","state":"absent","reason":"no_txt_record","rcode":"NOERROR","authenticated":false,"took_ms":12.345},` +
	`{"asked":"ns2.example.com","name_server":true,"address":"192.0.2.1:53","transport":"udp","state":"absent","reason":"name_does_not_exist","rcode":"NXDOMAIN","authenticated":false,"took_ms":1`

const stateDictionary = `The TXT record at could not be checked: the domain's name servers do not answer as they should (SERVFAIL).no answer came in time. holds another value than the expected one: "` +
	checkDictionary + `"sentence":"There is no TXT record at _ss-verification.org_` +
	`name_does_not_exist","rcode":"NXDOMAIN","authenticated":false,"took_ms":{"asked":"ns2.","name_server":true,"address":"","transport":"udp","state":"absent","reason":"` +
	`{"z":".com","j":"==","w":"=","e":{"at":"2026-12-01T00:00:00Z","state":"absent","reason":"name_does_not_exist","sentence":"There is no TXT record at _ss-verification.org_: the name does not exist.","basis":"authority","quorum":2,"resolvers":3,"observations":[`

// proofDictionary has, before a whole proof, names of name servers that many use.
const proofDictionary = `"more_observations":"negative_ttl":"extended_error":"error":"note":"values":["state":"absent","reason":"state":"unknown","reason":"timeout"servfail` +
	`"transport":"udp"https://208.67.222.222:443/dns-query#dns.opendns.comhttps://149.112.112.112:443/dns-query#dns.quad9.nethttps://1.0.0.1:443/dns-query#one.one.one.onehttps://8.8.4.4:443/dns-query#dns.google` +
	`.domaincontrol.com.awsdns-.co.uk.org.net.ui-dns.org.ui-dns.dens1.dreamhost.comns1.digitalocean.comns-cloud-a1.googledomains.comns1-01.azure-dns.com.gandi.netns1.bluehost.com` +
	`dns1.p01.nsone.net.ovh.netdns1.registrar-servers.com.ns.cloudflare.com[2606:4700:50::adf5:[2a06:98c1:50::ac40:[2803:f800:50::6ca2:]108.162.192.172.64.32.173.245.58.205.251.192.` +
	`"reason":"found","aliases":[""],"rcode":"NOERROR","authenticated":true,"took_ms":21},{"asked":"ns2.` +
	`{"at":"2026-12-01T12:00:00Z","state":"present","reason":"found","basis":"authority_and_resolvers","quorum":2,"resolvers":3,"observations":[{"asked":"ns-1.",` +
	`","name_server":true,"address":"1.53:53","transport":"udp","state":"present","reason":"found","rcode":"NOERROR","authenticated":false,"took_ms":1},{"asked":"dns1.` +
	`","name_server":true,"address":"1.53:53","transport":"udp","state":"present","reason":"found","rcode":"NOERROR","authenticated":false,"took_ms":1},{"asked":"ns1.` +
	`:53","transport":"udp","state":"present","reason":"found","rcode":"NOERROR","authenticated":false,"took_ms":1},` +
	`{"asked":"https://1.1.1.1:443/dns-query#one.one.one.one","name_server":false,"operator":"Cloudflare","perspective":"default","transport":"https","state":"present","reason":"found","rcode":"NOERROR","authenticated":false,"took_ms":1},` +
	`{"asked":"https://8.8.8.8:443/dns-query#dns.google","name_server":false,"operator":"Google","perspective":"default","transport":"https","state":"present","reason":"found","rcode":"NOERROR","authenticated":false,"took_ms":1},` +
	`{"asked":"https://9.9.9.9:443/dns-query#dns.quad9.net","name_server":false,"operator":"Quad9","perspective":"default","transport":"https","state":"present","reason":"found","rcode":"NOERROR","authenticated":false,"took_ms":1` +
	`}],"compared":{"organization_id":"org_","discovery_domain_id":"ord_","domain":".com","verification_host":"_ss-verification.org_","},"hex":"=="}`
