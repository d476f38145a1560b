package console_test

import (
	"orgops/internal/redistest"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	redistest.Parallel(4)
	goleak.VerifyTestMain(m)
}
