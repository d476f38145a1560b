package ledger

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// maxChildren bounds the children of a run: lists read many headers at once.
const maxChildren = 1000

// Adopt adds child to the children of parent as it was read. A producer calls it before it
// creates the child. Adopting a child twice has no effect. The error is [ErrOpen] if the parent
// had ended when it was read, and Redis has lost that since, and [ErrRaced] if its children have
// changed since it was read.
func (l *Ledger) Adopt(ctx context.Context, parent Run, child RunID) (err error) {
	defer wrap(&err, "run %s: adopt run %s", parent.ID, quoted(string(child)))
	if err := child.Validate(); err != nil {
		return err
	}
	if slices.Contains(parent.Children, child) {
		return nil
	}
	if len(parent.Children) >= maxChildren {
		return fmt.Errorf("it has %d children: delete some of them, or submit the rows as a run of their own", maxChildren)
	}
	_, err = l.onHeader(ctx, childrenScript, parent, joinRuns(parent.Children),
		joinRuns(append(slices.Clone(parent.Children), child)), flag(parent.Ended()))
	return err
}

// joinRuns returns the stored form of children: their ids, separated by spaces.
func joinRuns(ids []RunID) string { return strings.Trim(fmt.Sprint(ids), "[]") }
