package ledger

import (
	"context"
	"errors"
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
	return l.setChildren(ctx, parent, joinRuns(parent.Children), joinRuns(append(slices.Clone(parent.Children), child)))
}

// disown takes a run that is deleted out of the children of its parent. It reads no more of
// the parent than that: a header that is damaged must not prevent the deletion.
func (l *Ledger) disown(ctx context.Context, t Tenant, parent, child RunID) error {
	if parent.Validate() != nil {
		return nil
	}
	for {
		head, err := l.rdb.HMGet(ctx, headerKey(t, parent, "header"), "inc", "children").Result()
		if err != nil {
			return fmt.Errorf("read children of run %s: %w", parent, err)
		}
		have := answer(head).text(1)
		children := parseRuns(have)
		left := slices.DeleteFunc(slices.Clone(children), func(id RunID) bool { return id == child })
		if len(left) == len(children) {
			return nil
		}
		err = l.setChildren(ctx, Run{ID: parent, Tenant: t, Incarnation: Incarnation(answer(head).text(0))}, have,
			joinRuns(left))
		if err == nil || isNotFound(err) {
			return nil
		}
		if !errors.Is(err, ErrRaced) {
			return fmt.Errorf("change children of run %s: %w", parent, err)
		}
	}
}

// setChildren replaces the stored children of a run, unless they differ from those given.
func (l *Ledger) setChildren(ctx context.Context, run Run, from, to string) error {
	_, err := l.onHeader(ctx, childrenScript, run, from, to, flag(run.Ended()))
	return err
}

// joinRuns returns the stored form of children: their ids, separated by spaces.
func joinRuns(ids []RunID) string { return strings.Trim(fmt.Sprint(ids), "[]") }
