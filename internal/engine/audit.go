package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"orgops/internal/ledger"
)

// auditEvery is how often an engine compares its executions with those of the ledger.
const auditEvery = 20 * time.Second

// RunAudits audits every 20 s until ctx ends. l is a ledger whose commands go on after ctx has
// ended.
func (e *Engine) RunAudits(ctx context.Context, l Ledger) {
	for Sleep(ctx, auditEvery) == nil {
		if err := e.Audit(ctx, l); err != nil && ctx.Err() == nil {
			e.cfg.Logger.WarnContext(ctx, "executions not compared with the ledger", "error", err)
		}
	}
}

// Audit gives back rows that the ledger has in progress although their execution has
// ended: Redis has lost the write that ended it, or it was never written. No attempt is
// counted, and intents stay. Without it such rows are due after [ledger.ExecutionLimit],
// since the session is alive.
//
// A nonce is in e.running from before its Begin until after its last write. One that the
// ledger has, and that is not there afterwards, belongs to an execution that has ended.
func (e *Engine) Audit(ctx context.Context, l Ledger) error {
	all, failed := l.Running(ctx, e.cfg.Session, e.recent()...)
	for _, r := range e.without(all) {
		failed = errors.Join(failed, e.giveBackEnded(ctx, l, r))
	}
	return failed
}

// recent returns the segments whose rows may be in progress by an execution of this
// engine. One that has no such row now may have one again, if Redis goes back to an earlier
// state: only [ledger.ExecutionLimit] after the last execution it surely has none.
func (e *Engine) recent() (segs []ledger.Segment) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for seg, last := range e.segments {
		if time.Since(last) > ledger.ExecutionLimit {
			delete(e.segments, seg)
			continue
		}
		segs = append(segs, seg)
	}
	return segs
}

// without returns those that this engine does not execute.
func (e *Engine) without(all []ledger.Running) []ledger.Running {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.DeleteFunc(all, func(r ledger.Running) bool { return e.running[r.Nonce] != nil })
}

// giveBackEnded gives back rows of an execution that has ended.
func (e *Engine) giveBackEnded(ctx context.Context, l Ledger, r ledger.Running) error {
	note := ledger.GiveBack{Note: "the end of the last execution is not stored: Redis may have lost it"}
	receipt, err := l.End(ctx, r.Segment, r.Nonce, ledger.Ends(note, r.Rows...)...)
	if errors.Is(err, ledger.ErrNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("give back rows of an execution that has ended: %w", err)
	}
	// An execution may have ended after its rows were read: then nothing is written.
	given := 0
	for _, status := range receipt.Statuses {
		if status == ledger.RowWritten || status == ledger.RowCancelled {
			given++
		}
	}
	if given == 0 {
		return nil
	}
	e.cfg.Logger.WarnContext(ctx, "rows given back whose execution has ended", "run", r.Segment.Run, "segment",
		r.Segment.Number, "rows", given)
	return nil
}
