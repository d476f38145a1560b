package handlers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"orgops/apiclient"
	"orgops/internal/engine"
	"orgops/internal/ledger"
	"orgops/internal/sweep"
)

// decode reads the content of a row and checks it.
func decode[T interface{ Validate() error }](row *engine.Row) (content T, err error) {
	if err := engine.Decode(row.Content, &content); err != nil {
		return content, err
	}
	if err := content.Validate(); err != nil {
		return content, engine.Invalid(err)
	}
	return content, nil
}

// putIntent stores the intent of a request as JSON: by Intend of the execution right before the
// request is sent, or by Amend, which replaces it, also in a stopped run.
func putIntent(ctx context.Context, by func(context.Context, *engine.Row, []byte) error,
	row *engine.Row, intent any) error {
	value, err := json.Marshal(intent)
	if err != nil {
		return fmt.Errorf("intent: %w", err)
	}
	return by(ctx, row, value)
}

// readIntent reads the row's intent. Its form may be that of a newer version.
func readIntent(row *engine.Row, into any) error {
	if err := json.Unmarshal(row.Intent.Value, into); err != nil {
		return &engine.UnknownError{What: "the row's intent (" + err.Error() + ")"}
	}
	return nil
}

// stopped ends an execution in a stopped run of which no request may have an effect any more.
func stopped(ctx context.Context, x *engine.Execution, row *engine.Row) error {
	if row.Intended {
		if err := x.Withdraw(ctx, row); err != nil {
			return err
		}
	}
	return engine.ErrStopped
}

// withdraw takes the row's intent away, if it has one, for the reason that it returns.
func withdraw(ctx context.Context, x *engine.Execution, row *engine.Row, reason error) error {
	if !row.Intended {
		return reason
	}
	return both(reason, x.Withdraw(ctx, row))
}

// unchanged is the result of a row that needs no request.
func unchanged(why string) ledger.Result {
	return ledger.Result{Outcome: ledger.Unchanged, Detail: why}
}

// both returns the reason, with the error if there is one.
func both(reason, err error) error {
	if err == nil {
		return reason
	}
	return fmt.Errorf("%w; %w", reason, err)
}

// retryRefused counts an attempt for a refusal that says nothing about the row. Other errors
// are returned as they are.
func retryRefused(err error) error {
	if engine.Decide(err).Outcome == ledger.Refused {
		return engine.Retry(err)
	}
	return err
}

// isNotFound reports whether the API has no such record.
func isNotFound(err error) bool { return apiclient.NotFound(err) }

// fail ends a row with an error. One of the domain's state leaves it open if another process has
// changed that, and settles it if the state cannot be read: the end of a sweep must not wait for
// it.
func fail(err error) *engine.Consequence {
	if _, ok := errors.AsType[*sweep.UnreadableError](err); ok {
		return engine.Settle(ledger.Result{Outcome: ledger.Failed, Detail: err.Error() + ": " + sweep.Unreadable})
	}
	if errors.Is(err, sweep.ErrChanged) {
		return engine.Later("another process has changed the state of this domain meanwhile", time.Second)
	}
	return engine.Fail(err)
}
