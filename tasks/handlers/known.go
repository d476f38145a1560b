package handlers

import (
	"orgops/internal/discovery"
	"orgops/internal/engine"
	"orgops/internal/index"
)

// learn sets the subject of the row, which the ledger stores when the execution ends.
func learn(x *engine.Execution, row *engine.Row, k index.Entry) {
	k.At = x.Now()
	k.Run = x.Run
	k.Segment = x.Segment.Number
	k.Row = row.Number
	if s := k.Subject(); s != nil {
		row.Subject = s
	}
}

// learnRead is learn of a record that was read now, or listed within the last minute.
func learnRead(x *engine.Execution, row *engine.Row, d discovery.Domain) {
	learn(x, row, index.Entry{Domain: d, Read: x.Now()})
}
