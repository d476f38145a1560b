package kinds

import (
	"encoding/json"
	"fmt"
)

// OpenVerify is the state of an open row of kind [Verify], for people to read.
type OpenVerify struct {
	// Record is the discovery domain as it was read; nil: it was not.
	Record *VerifyRecord
	// Sentence says what the last check found; "": there was none, or the token was there.
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
		o.Evidence, err = packVerdict(*state.Evidence)
	}
	return o, err
}
