package ledger

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"orgops/internal/untrusted"
)

const (
	// maxChildren bounds the children of a run: lists read many headers at once.
	maxChildren = 1000
	// maxChildNumber bounds their numbers, which are stored with each claimed row in two bytes.
	maxChildNumber = 1<<16 - 1
	// claimRows is the largest number of rows that one script claims, which takes Redis a millisecond.
	claimRows = 1000
)

// Adopt adds child to the children of parent as it was read, and returns the parent with it. A
// producer calls it before it creates the child. Adopting a child twice has no effect. The error is
// [ErrOpen] if the parent had ended when it was read, and Redis has lost that since, and [ErrRaced]
// if its children have changed since it was read.
func (l *Ledger) Adopt(ctx context.Context, parent Run, child RunID) (adopted Run, err error) {
	defer wrap(&err, "run %s: adopt run %s", parent.ID, untrusted.Value(child))
	if err := child.Validate(); err != nil {
		return parent, err
	}
	if _, ok := parent.ChildOf(child); ok {
		return parent, nil
	}
	if len(parent.Children) >= maxChildren || len(parent.childEntries) >= maxChildNumber {
		return parent, fmt.Errorf("it has %d children: delete some of them, or submit the rows as a run of their own",
			len(parent.Children))
	}

	adopted = parent
	adopted.childEntries = append(slices.Clone(parent.childEntries), string(child))
	adopted.Children = childrenOf(adopted.childEntries)
	_, err = l.onHeader(ctx, childrenScript, parent, strings.Join(parent.childEntries, " "),
		strings.Join(adopted.childEntries, " "), flag(parent.Ended()))
	if err != nil {
		return parent, err
	}
	return adopted, nil
}

// Claim is a settled row that a child repeats.
type Claim struct {
	Row Row
	// Former is the number of a child that had claimed the row, and never had rows; 0: none has
	// claimed it.
	Former int
}

// Claim has a child repeat rows of a segment of its parent, but for those that another child has
// claimed, or that are open since Redis has lost their results. It returns for each claim whether
// the child has the row. The child is created and not committed; it can be committed with as many
// rows as it has claimed. Repeating a claim has no further effect. The error is [ErrNotFound] if
// the segment or the child is not there, and [ErrEnded] if the child is committed or cancelled.
func (l *Ledger) Claim(ctx context.Context, parent Segment, child Run, number int,
	claims []Claim) (granted []bool, err error) {
	defer wrap(&err, "segment %s: claim rows for run %s", parent, child.ID)
	keys := append(rowsKeys(parent), headerKey(child.Tenant, child.ID, "header"))
	for page := range slices.Chunk(claims, claimRows) {
		args := []any{parent.String(), string(child.Incarnation), number}
		for _, claim := range page {
			args = append(args, int(claim.Row), claim.Former)
		}
		a, err := l.do(ctx, claimScript, keys, args)
		if err != nil {
			return nil, err
		}
		for i := range page {
			granted = append(granted, a.list(1).int(i) == int64(number))
		}
	}
	return granted, nil
}
