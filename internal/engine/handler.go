package engine

import "context"

// Handler carries out rows of one kind. It must be safe to run twice and to be killed
// anywhere, and return soon after its context has ended.
type Handler interface {
	// Execute returns the answer for each row that it finished. The error applies to all
	// other rows; nil means that they are done.
	Execute(ctx context.Context, x *Execution) (Answers, error)
}

// BatchHandler is a [Handler] that carries out rows of several runs at the same time.
type BatchHandler interface {
	Handler
	// ExecuteAll returns for each execution the answers for the rows that it finished. The
	// error applies to all other rows; nil means that they are done. It calls
	// [Execution.Allowed] of each execution before a request.
	ExecuteAll(ctx context.Context, all []*Execution) ([]Answers, error)
}

// One returns a handler of tasks that have one row each. f returns how the row ends, and never nil.
func One(f func(ctx context.Context, x *Execution, row *Row) *Consequence) Handler {
	return one(f)
}

type one func(context.Context, *Execution, *Row) *Consequence

// Execute executes the rows one after the other. The end of one does not concern the others.
func (f one) Execute(ctx context.Context, x *Execution) (Answers, error) {
	answers := Answers{}
	for _, row := range x.Rows {
		answers[row.Number] = f(ctx, x, row)
	}
	return answers, nil
}
