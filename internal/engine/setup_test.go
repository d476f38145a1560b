package engine_test

import (
	"context"
	"testing"

	"go.uber.org/goleak"

	"orgops/internal/engine"
	"orgops/internal/enginetest"
	"orgops/internal/redistest"
)

func TestMain(m *testing.M) {
	redistest.Parallel(8)
	goleak.VerifyTestMain(m)
}

const (
	tenant = enginetest.Tenant
	org    = "org_1"
	dom    = "ord_1"
)

type site = enginetest.Site

// handler has a worker use this handler for all kinds.
func handler(f func(context.Context, *engine.Execution, *engine.Row) *engine.Consequence) func(*engine.Config) {
	return func(c *engine.Config) { c.Handlers["test"] = engine.One(f) }
}
