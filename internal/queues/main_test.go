package queues_test

import (
	"os"
	"testing"

	"orgops/internal/redistest"
)

func TestMain(m *testing.M) {
	redistest.Parallel(8)
	os.Exit(m.Run())
}
