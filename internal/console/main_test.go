package console_test

import (
	"testing"

	"orgops/internal/redistest"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	redistest.Parallel(8)
	goleak.VerifyTestMain(m)
}
