package evidence

import (
	"cmp"
	"encoding/json"
	"time"

	"orgops/internal/ledger"
	"orgops/internal/stamp"
	"orgops/internal/untrusted"
	"orgops/tasks"
)

// maxReason is how many characters of a reason are shown: room for a sentence and a quoted value.
const maxReason = 500

// Open says why a row is open, for people to read.
type Open struct {
	// Record is the discovery domain of a row of kind [tasks.TypeVerify], as it was read; nil: it was
	// not.
	Record *Record
	// Evidence is that of the last check, without its sentence; nil: there was none, or the token was
	// there. Advice is its sentence, or the remedy.
	Evidence *Evidence
	Advice   string

	// Reason is why the last execution left the row open, or where the row is; safe to show. Empty:
	// no worker has begun it.
	Reason string
	// Noted reports whether an execution has left the reason.
	Noted bool
	// Next is when the row is due; zero: not known.
	Next time.Time
}

// ReadOpen reads the state of an open row of a kind.
func ReadOpen(kind ledger.Kind, row ledger.RowState) (o Open) {
	note := ledger.ParseNote(row.Checkpoint.Memo)
	if kind == tasks.TypeVerify && len(note.Memo) > 0 {
		o.readState(note.Memo, row.Content)
	}
	text := string(note.Outcome)
	if reason := cmp.Or(note.Reason, o.Advice); reason != "" {
		text += ": " + reason
	}
	text = cmp.Or(row.Checkpoint.Note, text)
	if row.Err != nil {
		text = row.Err.Error()
	}
	o.Reason = untrusted.Plain(text, maxReason)
	o.Next = row.Due
	if o.Noted = o.Reason != ""; o.Noted {
		return o
	}
	if o.Next.Before(time.Now()) {
		o.Next = time.Time{} // it was given back, and waits for a worker
	}
	switch row.Phase {
	case ledger.PhaseReleased:
		o.Reason = "released to a worker"
	case ledger.PhaseInProgress:
		o.Reason = "in progress since " + stamp.UTC(row.Since)
	}
	return o
}

// readState adds what the memo of a row says, unless it is of a newer version. The record may be in
// the row's content.
func (o *Open) readState(memo, content []byte) {
	state, err := ReadState(memo)
	if err != nil {
		return
	}
	o.Record = state.Record
	var row tasks.VerifyRow
	if o.Record == nil && json.Unmarshal(content, &row) == nil && row.Listed != nil {
		o.Record = RecordOf(*row.ListedDomain())
	}
	if o.Evidence = state.Evidence; o.Evidence != nil {
		o.Evidence.Record = o.Record
		o.Advice = o.Evidence.Advice()
		o.Evidence.Sentence = ""
	}
}
