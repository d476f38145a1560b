package ledger

import (
	"context"
	"fmt"
)

// SubmitRow creates a run of one row and commits it, by one script. The run is marked as single,
// and has the digest of its row: see [Description]. If a run of that id exists with the same row
// and kind, SubmitRow returns it: one that has ended, or that was cancelled, stays as it is. If
// row or kind differs, the error is a [MismatchError], and nothing has changed.
//
// Redis may lose the writes of its last second. To verify that it has not, submit the same
// row again two seconds later.
func (l *Ledger) SubmitRow(ctx context.Context, n NewRun, row []byte) (run Run, created bool, err error) {
	p, err := pack([][]byte{row})
	if err != nil {
		return Run{}, false, fmt.Errorf("run %s: %w", n.ID, err)
	}
	n.Single = true
	n.Digest = ""
	n.Scan = nil
	fields, err := n.fields()
	if err != nil {
		return Run{}, false, err
	}
	n.Digest = singleDigest(p.sum.stored())
	fields = append(fields, "rows", 1, "per", p.per, "sum", p.sum.stored())
	fields = append(append([]any{n.BatchWait.Milliseconds()}, fields...), pieces("0", p.chunks[0])...)
	return l.create(ctx, n, submitScript, Incarnation(singleMark+random()[1:]), fields)
}
