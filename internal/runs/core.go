package runs

import (
	"context"
	"errors"
	"fmt"

	"orgops/internal/ledger"
)

// Core returns the ledger that has the runs of the kinds of [InCore].
func (l *Ledger) Core() *ledger.Ledger { return l.core }

// InCore reports whether new runs of a kind are created in [Ledger.Core], whose rows a
// dispatcher releases, and not in this ledger.
func InCore(kind string) bool {
	switch kind {
	case "domain:verify", "domain:update", "clients:remove", "template:create", "domain:recheck", "domain:act", "domain:relook":
		return true
	}
	return false
}

// inCore returns the run of that id in the core; found is false if there is none.
func (l *Ledger) inCore(ctx context.Context, id string) (run ledger.Run, found bool, err error) {
	if checkID(id) != nil {
		return ledger.Run{}, false, nil // the caller reports it
	}
	run, err = l.core.Get(ctx, ledger.RunID(id))
	if errors.Is(err, ledger.ErrNotFound) {
		return ledger.Run{}, false, nil
	}
	return run, err == nil, err
}

// CreateInCore creates a run in [Ledger.Core], or returns the one that exists, in both
// forms. If a run of the old ledger has the id, or the run in the core differs in kind,
// tenant or digest, the error is a [MismatchError].
func (l *Ledger) CreateInCore(ctx context.Context, n ledger.NewRun) (Run, ledger.Run, bool, error) {
	if err := n.ID.Validate(); err != nil {
		return Run{}, ledger.Run{}, false, err
	}
	if err := l.checkFreeInOld(ctx, n); err != nil {
		return Run{}, ledger.Run{}, false, err
	}
	run, created, err := l.core.Create(ctx, n)
	if err != nil {
		return Run{}, ledger.Run{}, false, mismatch(err)
	}
	counts, err := l.coreCounts(ctx, run)
	if err != nil {
		return Run{}, ledger.Run{}, false, err
	}
	return FromCore(run, counts), run, created, nil
}

// SubmitRow submits a single row to [Ledger.Core], as its method of that name does. If a run
// of either ledger has the id with another row, tenant or kind, the error is a
// [MismatchError].
func (l *Ledger) SubmitRow(ctx context.Context, n ledger.NewRun, row []byte) (created bool, err error) {
	if err := n.ID.Validate(); err != nil {
		return false, err
	}
	if err := l.checkFreeInOld(ctx, n); err != nil {
		return false, err
	}
	_, created, err = l.core.SubmitRow(ctx, n, row)
	return created, mismatch(err)
}

// checkFreeInOld returns a [MismatchError] if a run of the old ledger has the id.
func (l *Ledger) checkFreeInOld(ctx context.Context, n ledger.NewRun) error {
	old, err := l.get(ctx, string(n.ID))
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err == nil {
		err = taken(string(n.ID), old.Kind, string(n.Kind))
	}
	return err
}

// checkFree returns a [MismatchError] if a run of the core has the id.
func (l *Ledger) checkFree(ctx context.Context, id, kind string) error {
	run, found, err := l.inCore(ctx, id)
	if err == nil && found {
		err = taken(id, string(run.Kind), kind)
	}
	return err
}

// taken is the error of creating a run whose id a run of the other ledger has.
func taken(id, have, want string) error {
	if have == want {
		return &MismatchError{Run: id, Member: "content", Have: "rows of another submission", Want: "new rows"}
	}
	return &MismatchError{Run: id, Member: "kind", Have: have, Want: want}
}

// mismatch makes a [MismatchError] of the core's.
func mismatch(err error) error {
	e, ok := errors.AsType[*ledger.MismatchError](err)
	if !ok {
		return err
	}
	member := e.Member
	if member == "digest" || member == "rows" {
		member = "content"
	}
	return fmt.Errorf("run %s: create: %w", e.Run, &MismatchError{Run: string(e.Run), Member: member, Have: e.Have, Want: e.Want})
}
