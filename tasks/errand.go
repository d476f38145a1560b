package tasks

import "context"

// Errand is what a request to the API is for, so that whoever paces requests can
// tell which of those that wait is to go first.
type Errand struct {
	Lane     Lane
	Looking  bool // the read of a look or of a walk, which may be one of many; else it finishes a row
	Sweeping bool // a read of a sweep, for which nobody waits
}

type errandKey struct{}

// ErrandOf is the errand of a handler's requests, of which this is the context;
// that of others is to finish something on the normal lane.
func ErrandOf(ctx context.Context) Errand {
	e, _ := ctx.Value(errandKey{}).(Errand)
	return e
}

// onErrand is for the requests of an execution.
func (j Job) onErrand(ctx context.Context, typ string) context.Context {
	e := Errand{Lane: j.Lane}
	switch typ {
	case TypeVerify, TypeWalk:
		e.Looking = true
	case TypeSweep, TypeRecheck, TypeRelook:
		e.Sweeping = true
	}
	return context.WithValue(ctx, errandKey{}, e)
}
