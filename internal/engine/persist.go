package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"orgops/internal/ledger"
)

// endedError is an error that persist does not try to overcome.
type endedError struct{ err error }

func (e *endedError) Error() string { return e.err.Error() }
func (e *endedError) Unwrap() error { return e.err }

const (
	// writeTimeout bounds one call of the ledger, which goes on after its task's context
	// has ended.
	writeTimeout = 10 * time.Second
	// lastWrites is how long a worker that stops goes on to try a write.
	lastWrites = 5 * time.Second
)

// persist repeats a call of the ledger, which may be repeated, until Redis has answered,
// a second after each error. While the session lives nothing else frees the rows, so it
// ends only with the rows' time, or when the worker stops: then the session dies.
func (e *Engine) persist(ctx context.Context, call string, f func(context.Context) error) error {
	ctx = context.WithoutCancel(ctx)
	stop := e.cfg.Stopping
	end := time.NewTimer(ledger.ExecutionLimit)
	defer end.Stop()
	for {
		err := e.attempt(ctx, f)
		var ended *endedError
		if err == nil || errors.Is(err, ledger.ErrNotFound) || errors.As(err, &ended) {
			return err
		}
		e.cfg.Logger.WarnContext(ctx, "ledger not reached", "call", call, "error", err)
		select {
		case <-time.After(redisPause):
		case <-end.C:
			return err
		case <-stop:
			stop = nil
			end.Reset(lastWrites)
		}
	}
}

func (e *Engine) attempt(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	return f(ctx)
}

// AddStep adds what the execution of a scan's row has found, even after ctx has ended. It may be
// repeated: see [ledger.Ledger.AddStep].
func (x *Execution) AddStep(ctx context.Context, s ledger.ScanStep) error {
	var status ledger.Status
	err := x.engine.attempt(context.WithoutCancel(ctx), func(ctx context.Context) (err error) {
		status, err = x.ledger.AddStep(ctx, x.Segment, x.identity.Nonce, s)
		return err
	})
	if errors.Is(err, ledger.ErrNotFound) {
		return ErrSuperseded
	}
	if err != nil {
		return fmt.Errorf("store the step: %w", err)
	}
	return refusal(status)
}
