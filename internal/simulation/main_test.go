package simulation_test

import (
	"os"
	"runtime/debug"
	"testing"
)

// TestMain lets the heap grow: each script that miniredis runs makes a Lua state.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}
