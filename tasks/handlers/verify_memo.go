package handlers

import (
	"fmt"
	"time"

	"orgops/apiclient"
	"orgops/internal/engine"
	"orgops/internal/events"
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
	Evidence *Evidence `json:"-"`
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

// packedState is the form in which a state is stored.
type packedState struct {
	VerifyState

	Record   []string `json:"r,omitempty"` // domain, host and token
	Evidence *packed  `json:"e,omitempty"`
}

// maxSentence bounds the sentence of the evidence, in code points.
const maxSentence = 400

// pack returns the memo of the row, if need be without the record, which is then read again.
func (s VerifyState) pack() ([]byte, error) {
	if s.Record == nil && s.Found == nil && s.Since.IsZero() && s.Evidence == nil {
		return nil, nil
	}
	memo, err := compress(engine.MaxMemo, func(cut int) any {
		p := packedState{VerifyState: s}
		if r := s.Record; r != nil {
			p.Record = []string{r.Domain, r.Host, r.TXT}
		}
		if s.Evidence != nil {
			p.Evidence = s.Evidence.packed(cut)
			p.Evidence.Sentence = events.Cut(s.Evidence.Sentence, maxSentence)
		}
		return p
	})
	if err == nil && len(memo) > engine.MaxMemo && s.Record != nil {
		without := s
		without.Record = nil
		return without.pack()
	}
	return memo, err
}

// ReadVerifyState reads the memo of a row.
func ReadVerifyState(memo []byte) (s VerifyState, err error) {
	if len(memo) == 0 {
		return s, nil
	}
	var p packedState
	if err := decompress(memo, &p); err != nil {
		return s, &engine.UnknownError{What: fmt.Sprintf("the row's memo (%v)", err)}
	}
	s = p.VerifyState
	if r := p.Record; len(r) == 3 {
		s.Record = &VerifyRecord{r[0], r[1], r[2]}
	}
	if p.Evidence != nil {
		e := p.Evidence.unpacked()
		s.Evidence = &e
	}
	return s, nil
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

// ReadOpenVerify reads the memo of an open row's note.
func ReadOpenVerify(memo []byte) (o OpenVerify, err error) {
	state, err := ReadVerifyState(memo)
	if err != nil {
		return o, err
	}
	o.Record = state.Record
	if state.Evidence != nil {
		o.Sentence = state.Evidence.Sentence
		o.Evidence, err = state.Evidence.pack()
	}
	return o, err
}
