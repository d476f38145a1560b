package kinds

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/klauspost/compress/flate"

	"orgops/dnscheck"
	"orgops/internal/engine"
)

// Evidence is a verdict that is stored with a row: why it waits or has expired, by the last
// check that did not find the token, or why its domain was verified, by the proof. It is
// JSON, compressed, since a million rows may have one. Strangers choose what servers
// answer, so it is cut until it fits.
type Evidence struct {
	dnscheck.Evidence

	// Compared is the record that was verified by the proof; nil for a check.
	Compared *Compared `json:"compared,omitempty"`
	// ThinProof says why the proof was accepted although the verdict is unknown; nil: it is
	// present.
	ThinProof *ThinProof `json:"thin_proof,omitempty"`
}

// seenBy returns a property of each resolver that found the token, each once and in order.
func (e Evidence) seenBy(property func(dnscheck.ObservationRecord) string) []string {
	var all []string
	for _, o := range e.Said {
		if !o.Authority && o.State == usualState {
			all = append(all, property(o))
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

const (
	// maxVerdict bounds the evidence of a check, and the memo of a row, in bytes. A usual
	// verdict, four name servers that know no such name, takes some 150.
	maxVerdict = engine.MaxMemo
	// maxUnpacked bounds evidence that is decompressed. A verdict of 16 observations is 16 KB.
	maxUnpacked = 256 << 10
)

// packing compresses JSON with a dictionary, behind a byte that names the two.
type packing struct {
	version    byte
	dictionary []byte
}

func newPacking(version byte, dictionary string) *packing {
	return &packing{version, []byte(dictionary)}
}

// checkPacking is that of a check that did not find the token.
var checkPacking = newPacking(1, checkDictionary)

// checkDictionary is text of nearly every verdict, the most frequent last. Another one needs
// another version.
const checkDictionary = `"sentence":"basis":"authority_and_resolvers","resolvers_lag","name_servers_disagree","timeout","unreachable","unknown","reason":"servfail","rcode":"SERVFAIL"` +
	`"values":["\"google-site-verification=","\"v=spf1 include:_spf.google.com ~all\""],"more_values":"aliases":["extended_error":"more_observations":` +
	`,"authenticated":true,"negative_ttl":"error":"lookup: i/o timeout"},{"asked":"1.1.1.1:53"8.8.8.8:539.9.9.9:53` +
	`{"at":"2026-01-01T00:00:00Z","state":"absent","reason":"other_value","basis":"resolvers","quorum":2,"resolvers":3,"negative_ttl":300,"observations":[` +
	`{"asked":"ns1.example.com","name_server":false,"transport":"udp","state":"absent","reason":"no_txt_record","rcode":"NOERROR","authenticated":false,"took_ms":12.345},` +
	`{"asked":"ns2.example.com","name_server":true,"address":"192.0.2.1:53","transport":"udp","state":"absent","reason":"name_does_not_exist","rcode":"NXDOMAIN","authenticated":false,"took_ms":1`

// evidenceOf returns the evidence of a check. If no record has confirmed the host it has
// nothing that was found there.
func evidenceOf(v dnscheck.Verdict, confirmed bool, at time.Time) dnscheck.Evidence {
	e := v.PlainEvidence()
	if confirmed {
		e = v.Evidence()
	}
	e.At = at.UTC().Truncate(time.Second)
	return e
}

// packVerdict compresses the evidence of a check, without its sentence.
func packVerdict(e dnscheck.Evidence) ([]byte, error) {
	return checkPacking.packCut(maxVerdict, func(level int) any { return e.Cut(level) })
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
	text, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("pack evidence: %w", err)
	}
	packed := bytes.NewBuffer([]byte{p.version})
	// A writer of compress/flate takes ten times as long for a text as short as this: it
	// clears half a megabyte first.
	if err := flate.StatelessDeflate(packed, text, true, p.dictionary); err != nil {
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

// ReadEvidence reads the evidence of a settled row's result: of a check if the row has
// expired, of the proof if its domain was verified. It has no sentence.
func ReadEvidence(packed []byte) (e Evidence, err error) {
	if len(packed) > 0 && packed[0] == proofPacking.version {
		var p proof
		err = proofPacking.unpack(packed, &p)
		return p.evidence(), err
	}
	return e, checkPacking.unpack(packed, &e)
}
