package tasks

import (
	"bytes"
	"compress/flate"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"orgops/dnscheck"
)

// Evidence answers two questions about a row: why it waits, by the last check that did not
// find the token, and why its domain was verified, by the proof. It is the verdict as JSON,
// packed, since a million rows may have one. What servers answer is chosen by strangers, so
// it is cut until it fits.

// Evidence is a verdict that is kept with a row.
type Evidence struct {
	dnscheck.Evidence

	// Compared is the API's record that was changed by the verdict; nil: none was.
	Compared *Compared `json:"compared,omitempty"`
	// ThinProof says why the proof was accepted although the verdict is unknown; nil: it is
	// present.
	ThinProof *ThinProof `json:"thin_proof,omitempty"`
}

// seenBy returns that of each resolver that found the token, each once and in order.
func (e Evidence) seenBy(of func(dnscheck.ObservationRecord) string) []string {
	var all []string
	for _, o := range e.Said {
		if !o.Authority && o.State == usualState {
			all = append(all, of(o))
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

const (
	// mostEvidence is how many bytes are kept of the last check of a row that waits; a usual
	// verdict, four name servers that know no such name, takes some 150.
	mostEvidence = 2048
	// mostUnpacked bounds what is read back. A verdict of 16 observations is 16 KB.
	mostUnpacked = 256 << 10
)

// packing is a way to pack JSON: its text compressed with a dictionary, after a byte that
// names the two.
type packing struct {
	version    byte
	dictionary string
	writers    sync.Pool // of *flate.Writer: each is half a megabyte
}

// checkPacking is that of a check that did not find the token.
var checkPacking = newPacking(1, checkDictionary)

func newPacking(version byte, dictionary string) *packing {
	return &packing{version: version, dictionary: dictionary, writers: sync.Pool{New: func() any {
		w, err := flate.NewWriterDict(nil, flate.DefaultCompression, []byte(dictionary))
		if err != nil {
			panic(err) // only of a level that does not exist
		}
		return w
	}}}
}

// checkDictionary is text of nearly every verdict, the most frequent last. Another one needs
// another version.
const checkDictionary = `"sentence":"basis":"authority_and_resolvers","resolvers_lag","name_servers_disagree","timeout","unreachable","unknown","reason":"servfail","rcode":"SERVFAIL"` +
	`"values":["\"google-site-verification=","\"v=spf1 include:_spf.google.com ~all\""],"more_values":"aliases":["extended_error":"more_observations":` +
	`,"authenticated":true,"negative_ttl":"error":"lookup: i/o timeout"},{"asked":"1.1.1.1:53"8.8.8.8:539.9.9.9:53` +
	`{"at":"2026-01-01T00:00:00Z","state":"absent","reason":"other_value","basis":"resolvers","quorum":2,"resolvers":3,"negative_ttl":300,"observations":[` +
	`{"asked":"ns1.example.com","name_server":false,"transport":"udp","state":"absent","reason":"no_txt_record","rcode":"NOERROR","authenticated":false,"took_ms":12.345},` +
	`{"asked":"ns2.example.com","name_server":true,"address":"192.0.2.1:53","transport":"udp","state":"absent","reason":"name_does_not_exist","rcode":"NXDOMAIN","authenticated":false,"took_ms":1`

// packVerdict packs the verdict of a check that did not find the token. Of a host that no
// record has confirmed it holds nothing that was found there.
func packVerdict(v dnscheck.Verdict, confirmed bool, at time.Time) ([]byte, error) {
	e := v.PlainEvidence()
	if confirmed {
		e = v.Evidence()
	}
	e.At = at.UTC().Truncate(time.Second)
	var packed []byte
	for level := 1; level <= dnscheck.Cuts; level++ {
		var err error
		if packed, err = checkPacking.pack(e.Cut(level)); err != nil {
			return nil, err
		}
		if len(packed) <= mostEvidence {
			break
		}
	}
	return packed, nil
}

func (p *packing) pack(v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("pack evidence: %w", err)
	}
	w := p.writers.Get().(*flate.Writer)
	defer p.writers.Put(w)
	packed := bytes.NewBuffer([]byte{p.version})
	w.Reset(packed)
	_, err = w.Write(text)
	if err = errors.Join(err, w.Close()); err != nil {
		return nil, fmt.Errorf("pack evidence: %w", err)
	}
	return packed.Bytes(), nil
}

func (p *packing) unpack(packed []byte, v any) error {
	text, err := io.ReadAll(io.LimitReader(flate.NewReaderDict(bytes.NewReader(packed[1:]), []byte(p.dictionary)), mostUnpacked))
	if err == nil {
		err = json.Unmarshal(text, v)
	}
	if err != nil {
		return fmt.Errorf("read evidence: %w", err)
	}
	return nil
}

// ReadEvidence reads what the ledger keeps with a row: of one that is open or expired the
// last check that did not find the token, of one whose domain was verified the proof; and
// what an [Event] keeps. The sentence is not part of it.
func ReadEvidence(packed []byte) (e Evidence, err error) {
	switch {
	case len(packed) > 0 && packed[0] == checkPacking.version:
		err = checkPacking.unpack(packed, &e)
	case len(packed) > 0 && packed[0] == proofPacking.version:
		var p proof
		err = proofPacking.unpack(packed, &p)
		e = p.evidence()
	default:
		err = errors.New("read evidence: unknown version: use a newer orgops")
	}
	return e, err
}
