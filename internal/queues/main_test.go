package queues_test

import (
	"os"
	"testing"

	"orgops/internal/redistest"
)

func TestMain(m *testing.M) {
	redistest.Parallel(16)
	os.Exit(m.Run())
}
