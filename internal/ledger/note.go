package ledger

import (
	"bytes"
	"strings"

	"orgops/internal/untrusted"
)

const (
	// MaxMemo is the largest size of a memo in bytes: one script reads up to 128 of them.
	MaxMemo = 2 << 10
	// MaxReason bounds the reason of a note, in bytes.
	MaxReason = 200
	// MaxNoteMemo is the largest size of a note's memo in bytes: outcome and reason have their place
	// next to it in [MaxMemo].
	MaxNoteMemo = MaxMemo - MaxReason - 56
)

// Note is stored with a row that stays open at the end of an execution, as the row's memo in
// the ledger: <outcome> NUL <reason> NUL <memo>.
type Note struct {
	// Outcome is that of the last execution; empty if there was none.
	Outcome Outcome
	// Reason is for people. It is empty where the memo says it all.
	Reason string
	// Memo is the handler's.
	Memo []byte
}

// ParseNote reads the memo of a checkpoint. A memo in another form is the handler's.
func ParseNote(memo []byte) Note {
	outcome, rest, ok := bytes.Cut(memo, []byte{0})
	reason, own, ok2 := bytes.Cut(rest, []byte{0})
	if !ok || !ok2 || Outcome(outcome).Validate() != nil {
		return Note{Memo: memo}
	}
	return Note{Outcome: Outcome(outcome), Reason: string(reason), Memo: own}
}

// Pack is the inverse of ParseNote.
func (n Note) Pack() []byte {
	reason := untrusted.Clip(strings.ReplaceAll(n.Reason, "\x00", ""), MaxReason)
	packed := append([]byte(n.Outcome), 0)
	packed = append(append(packed, reason...), 0)
	return append(packed, n.Memo...)
}
