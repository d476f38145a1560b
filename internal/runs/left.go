package runs

import (
	"context"
	"fmt"
)

// Left is how many rows are open of a run whose rows a walk finds, below 0 while it
// may still find some, and what is told of the walk. The error is [ErrNotFound] where
// there is no such run.
func (l *Ledger) Left(ctx context.Context, run string) (open int64, told []byte, err error) {
	r, err := l.Get(ctx, run)
	if err != nil {
		return 0, nil, err
	}
	if r.Walk == nil {
		return 0, nil, fmt.Errorf("run %s: it has no scan: %w", run, ErrNotFound)
	}
	if !r.Sealed {
		return -1, r.Walk.Told, nil
	}
	return r.Total - r.Settled, r.Walk.Told, nil
}
