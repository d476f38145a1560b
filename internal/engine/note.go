package engine

import (
	"bytes"
	"strings"

	"orgops/internal/ledger"
)

const (
	// maxReason bounds the reason that is stored with a waiting row, in bytes.
	maxReason = 200
	// maxDetail and maxEvidence bound detail and evidence of a result, in bytes: together
	// they stay below the ledger's 16 KiB.
	maxDetail   = 4 << 10
	maxEvidence = 8 << 10
	// MaxMemo is the largest size of a handler's memo in bytes. The engine adds outcome and
	// reason to it.
	MaxMemo = ledger.MaxMemo - maxReason - 56
)

// Note is stored with a row that stays open at the end of an execution, as the row's memo in
// the ledger: <outcome> NUL <reason> NUL <memo>.
type Note struct {
	// Outcome is that of the last execution; empty if there was none.
	Outcome ledger.Outcome
	// Reason is for people. It is empty where the memo says it all.
	Reason string
	// Memo is the handler's.
	Memo []byte
}

// ParseNote reads the memo of a checkpoint. A memo in another form is the handler's.
func ParseNote(memo []byte) Note {
	outcome, rest, ok := bytes.Cut(memo, []byte{0})
	reason, own, ok2 := bytes.Cut(rest, []byte{0})
	if !ok || !ok2 || ledger.Outcome(outcome).Validate() != nil {
		return Note{Memo: memo}
	}
	return Note{Outcome: ledger.Outcome(outcome), Reason: string(reason), Memo: own}
}

// pack is the inverse of ParseNote.
func (n Note) pack() []byte {
	reason := Clip(strings.ReplaceAll(n.Reason, "\x00", ""), maxReason)
	packed := append([]byte(n.Outcome), 0)
	packed = append(append(packed, reason...), 0)
	return append(packed, n.Memo...)
}

// Clip returns at most n bytes of a text, whole characters.
func Clip(text string, n int) string {
	if len(text) <= n {
		return text
	}
	const mark = "…"
	return strings.ToValidUTF8(text[:n-len(mark)], "") + mark
}
