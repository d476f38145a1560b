package runs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"orgops/internal/ledger"
)

// ErrRaced says that somebody else changed at the same moment what was to be
// changed: it is to be read again.
var ErrRaced = ledger.ErrRaced

// Adopt writes down that child repeats rows of parent, a run that has ended, as
// it was read. It comes before the child is created: whoever dies in between
// leaves a child that is not there yet, and that the same id completes. A child
// that parent has already is let be. The error is [ErrOpen] if the run has not
// ended, [ErrRaced] if it has got another child since it was read.
func (l *Ledger) Adopt(ctx context.Context, parent Run, child string) error {
	if err := checkID(child); err != nil {
		return err
	}
	if slices.Contains(parent.Children, child) {
		return nil
	}
	if parent.Core {
		return l.adoptInCore(ctx, parent, child)
	}
	if err := l.setChildren(ctx, parent, append(slices.Clone(parent.Children), child)); err != nil {
		return fmt.Errorf("run %s: adopt run %s: %w", parent.ID, child, err)
	}
	return nil
}

// disown is its inverse, for a child that is no more. Of a parent that is no more
// nothing is left to change, and the core does it itself for its own.
func (l *Ledger) disown(ctx context.Context, parent, child string) error {
	for {
		r, err := l.get(ctx, parent)
		if errors.Is(err, ErrNotFound) || (err == nil && !slices.Contains(r.Children, child)) {
			return nil
		}
		if err == nil {
			left := slices.DeleteFunc(slices.Clone(r.Children), func(id string) bool { return id == child })
			err = l.setChildren(ctx, r, left)
		}
		if !errors.Is(err, ErrRaced) {
			return err
		}
	}
}

func (l *Ledger) setChildren(ctx context.Context, parent Run, children []string) error {
	status, _, err := l.do(ctx, childrenScript, parent.ID, nil, strings.Join(parent.Children, " "), strings.Join(children, " "))
	switch {
	case err != nil:
		return err
	case status == "open":
		return ErrOpen
	case status == "raced":
		return ErrRaced
	}
	return nil
}
