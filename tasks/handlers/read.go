package handlers

// A read and a check change nothing, so that a second execution only repeats them.

import (
	"context"
	"strings"

	"orgops/apiclient/schema"
	"orgops/internal/engine"
	"orgops/internal/evidence"
	"orgops/internal/ledger"
	"orgops/internal/pace"
	"orgops/tasks"
)

// Read is the kind of rows that read a discovery domain and check its token once.
const Read ledger.Kind = tasks.TypeRead

// NewRead returns the handler of [Read]. Its rows settle by the first answers of the API and of
// DNS, behind the requests that finish rows of other kinds. See [ReadState].
func NewRead(cfg VerifyConfig) engine.Handler {
	return engine.One(func(ctx context.Context, x *engine.Execution, row *engine.Row) *engine.Consequence {
		v, err := newVerification(cfg, x, row)
		if err != nil {
			return engine.Fail(err)
		}
		v.settled = 0                        // no second read of a record that seems not to exist
		defer func() { row.Subject = nil }() // the index of names keeps the open row of the domain, if any

		// The record, unless the row has it.
		if v.state.Record == nil {
			err := v.readFresh(ctx, pace.Look)
			if isNotFound(err) {
				err = engine.Refuse(notFound+"%v", err)
			}
			if err != nil {
				return v.withID(engine.Fail(err))
			}
			if end := v.acceptRecord(); end != nil {
				return v.withID(end)
			}
		}

		// One check of its token.
		verdict, end := v.query(ctx)
		if end != nil {
			return end
		}
		e := evidence.OfCheck(verdict.Evidence(), x.Now())
		e.Record = v.state.Record
		result := unchanged("pending: " + verdict.Sentence())
		if result.Evidence, err = e.Pack(); err != nil {
			return engine.Fail(err)
		}
		return engine.Settle(result)
	})
}

// ReadState returns what a row of kind [Read] has found: that its domain is verified or not found,
// or the state of its token, present, absent or unknown; the outcome of a row that found none.
func ReadState(r ledger.Result) string {
	switch e, err := evidence.Read(r.Evidence); {
	case r.Outcome == ledger.Unchanged && strings.HasPrefix(r.Detail, verifiedBefore):
		return string(schema.StatusVerified)
	case r.Outcome == ledger.Unchanged && len(r.Evidence) > 0 && err == nil:
		return e.State
	case r.Outcome == ledger.Refused && strings.HasPrefix(r.Detail, notFound):
		return "not found"
	}
	return string(r.Outcome)
}
