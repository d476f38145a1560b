package kinds

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"orgops/apiclient"
	"orgops/internal/engine"
)

// VerifyState is stored with a row of kind [Verify] between its executions.
type VerifyState struct {
	// Record is the discovery domain as it was read; nil: it is read by the next check.
	Record *VerifyRecord `json:"-"`
	// Found distinguishes the answers of the zone; nil: it has not answered yet.
	Found []byte `json:"w,omitempty"`
	// Since is when the zone's answer changed, if checks have become frequent again by that.
	Since time.Time `json:"s,omitzero"`
	// Evidence is that of the last check, with its sentence; nil: the token was there.
	Evidence *Evidence `json:"e,omitempty"`
}

// VerifyRecord is the part of a discovery domain that checks need.
type VerifyRecord struct {
	Domain string `json:"domain"`
	Host   string `json:"verification_host"`
	TXT    string `json:"verification_txt"`
}

func recordOf(d apiclient.DiscoveryDomain) *VerifyRecord {
	return &VerifyRecord{Domain: d.Domain, Host: d.VerificationHost, TXT: d.VerificationTXT}
}

// packedState is the form in which a state is compressed.
type packedState struct {
	Domain string `json:"z,omitempty"`
	Host   string `json:"h,omitempty"` // "": usualHost
	TXT    string `json:"t,omitempty"`
	Hex    []byte `json:"j,omitempty"` // see packToken
	VerifyState
}

// maxSentence bounds the sentence of the evidence, in bytes.
const maxSentence = 400

// usualHost is where the service usually has the TXT record of a domain. It saves space
// only: a record with another host is stored with it.
func usualHost(organization, domain string) string {
	return "_ss-verification." + organization + "." + domain
}

// pack returns the memo of the row: at most maxVerdict bytes, if need be without the
// record, which is then read again.
func (s VerifyState) pack(organization string) ([]byte, error) {
	if s.Record == nil && s.Found == nil && s.Since.IsZero() && s.Evidence == nil {
		return nil, nil
	}
	memo, err := statePacking.packCut(maxVerdict, func(level int) any {
		p := packedState{VerifyState: s}
		if r := s.Record; r != nil {
			p.Domain = r.Domain
			if r.Host != usualHost(organization, r.Domain) {
				p.Host = r.Host
			}
			p.TXT, p.Hex = packToken(r.TXT)
		}
		if s.Evidence != nil {
			e := Evidence{Evidence: s.Evidence.Cut(level)}
			e.Sentence = strings.ToValidUTF8(s.Evidence.Sentence[:min(len(s.Evidence.Sentence), maxSentence)], "")
			p.Evidence = &e
		}
		return p
	})
	if err == nil && len(memo) > maxVerdict && s.Record != nil {
		without := s
		without.Record = nil
		return without.pack(organization)
	}
	return memo, err
}

// ReadVerifyState reads the memo of a row of that organization.
func ReadVerifyState(memo []byte, organization string) (s VerifyState, err error) {
	if len(memo) == 0 {
		return s, nil
	}
	var p packedState
	if err := statePacking.unpack(memo, &p); err != nil {
		return s, &engine.UnknownError{What: fmt.Sprintf("the row's memo (%v)", err)}
	}
	if p.Domain != "" {
		p.Record = &VerifyRecord{Domain: p.Domain, Host: cmp.Or(p.Host, usualHost(organization, p.Domain)), TXT: unpackToken(p.TXT, p.Hex)}
	}
	return p.VerifyState, nil
}

// OpenVerify is the state of an open row of kind [Verify], for people to read.
type OpenVerify struct {
	// Record is the discovery domain as it was read; nil: it was not.
	Record *VerifyRecord
	// Sentence is the result of the last check; "": there was none, or the token was there.
	Sentence string
	// Evidence is that of the last check, for [ReadEvidence]; nil: as Sentence.
	Evidence []byte
}

// ReadOpenVerify reads the content of an open row and the memo of its note.
func ReadOpenVerify(content, memo []byte) (o OpenVerify, err error) {
	var row VerifyRow
	if err := json.Unmarshal(content, &row); err != nil {
		return o, fmt.Errorf("row: %w", err)
	}
	state, err := ReadVerifyState(memo, row.OrganizationID)
	if err != nil {
		return o, err
	}
	o.Record = state.Record
	if state.Evidence != nil {
		o.Sentence = state.Evidence.Sentence
		o.Evidence, err = packCheck(*state.Evidence)
	}
	return o, err
}
