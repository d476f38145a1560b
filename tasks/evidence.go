package tasks

import (
	"bytes"
	"compress/flate"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"orgops/dnscheck"
)

// What a look found is kept with its row for whoever asks why the row waits: the
// verdict as JSON, packed, since a million rows may have one. What servers say is
// strangers' to choose, so it is cut until it fits.

const (
	// mostEvidence is how many octets are kept for a row; a usual verdict, four name
	// servers that know no such name, takes some 150.
	mostEvidence = 2048
	// mostUnpacked bounds what is read back. A verdict of 16 observations is 16 KB.
	mostUnpacked = 256 << 10
	// packedV1 begins what was packed with the dictionary below.
	packedV1 = 1
)

// packedWith is the dictionary: what stands in nearly every verdict, the most
// frequent last. Another one needs another number than packedV1.
const packedWith = `"sentence":"basis":"authority_and_resolvers","resolvers_lag","name_servers_disagree","timeout","unreachable","unknown","reason":"servfail","rcode":"SERVFAIL"` +
	`"values":["\"google-site-verification=","\"v=spf1 include:_spf.google.com ~all\""],"more_values":"aliases":["extended_error":"more_observations":` +
	`,"authenticated":true,"negative_ttl":"error":"lookup: i/o timeout"},{"asked":"1.1.1.1:53"8.8.8.8:539.9.9.9:53` +
	`{"at":"2026-01-01T00:00:00Z","state":"absent","reason":"other_value","basis":"resolvers","quorum":2,"resolvers":3,"negative_ttl":300,"observations":[` +
	`{"asked":"ns1.example.com","name_server":false,"transport":"udp","state":"absent","reason":"no_txt_record","rcode":"NOERROR","authenticated":false,"took_ms":12.345},` +
	`{"asked":"ns2.example.com","name_server":true,"address":"192.0.2.1:53","transport":"udp","state":"absent","reason":"name_does_not_exist","rcode":"NXDOMAIN","authenticated":false,"took_ms":1`

// packers are *flate.Writer: each is half a megabyte.
var packers = sync.Pool{New: func() any {
	w, err := flate.NewWriterDict(nil, flate.DefaultCompression, []byte(packedWith))
	if err != nil {
		panic(err) // only of a level that there is not
	}
	return w
}}

// packVerdict writes down a verdict that was reached at that time. Of a host that no
// record has confirmed it tells nothing that was found there.
func packVerdict(v dnscheck.Verdict, confirmed bool, at time.Time) ([]byte, error) {
	e := v.PlainEvidence()
	if confirmed {
		e = v.Evidence()
	}
	e.At = at.UTC().Truncate(time.Second)
	var packed []byte
	for level := 1; level <= dnscheck.Cuts; level++ {
		text, err := json.Marshal(e.Cut(level))
		if err != nil {
			return nil, fmt.Errorf("write the verdict down: %w", err)
		}
		if packed, err = pack(text); err != nil {
			return nil, fmt.Errorf("write the verdict down: %w", err)
		}
		if len(packed) <= mostEvidence {
			break
		}
	}
	return packed, nil
}

func pack(text []byte) ([]byte, error) {
	w := packers.Get().(*flate.Writer)
	defer packers.Put(w)
	packed := bytes.NewBuffer([]byte{packedV1})
	w.Reset(packed)
	_, err := w.Write(text)
	err = errors.Join(err, w.Close())
	return packed.Bytes(), err
}

// ReadEvidence reads back what the ledger keeps of a row's last look that did not
// find the token: who was asked, and what each said. The sentence is not among it.
func ReadEvidence(packed []byte) (e dnscheck.Evidence, err error) {
	if len(packed) == 0 || packed[0] != packedV1 {
		return e, errors.New("what was found is written in a way that this orgops does not know: use a newer one")
	}
	text, err := io.ReadAll(io.LimitReader(flate.NewReaderDict(bytes.NewReader(packed[1:]), []byte(packedWith)), mostUnpacked))
	if err == nil {
		err = json.Unmarshal(text, &e)
	}
	if err != nil {
		return e, fmt.Errorf("read what was found: %w", err)
	}
	return e, nil
}
